#include "cli/line_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace octavo::cli {

LineReader::Outcome LineReader::Read(std::string* line) {
  size_t searched = 0;
  while (true) {
    const size_t end = ahead_.find('\n', searched);
    if (end != std::string::npos) {
      *line = ahead_.substr(0, end);
      ahead_.erase(0, end + 1);
      return Outcome::kLine;
    }
    searched = ahead_.size();
    if (at_end_) {
      *line = std::move(ahead_);
      ahead_.clear();
      return line->empty() ? Outcome::kEnd : Outcome::kLine;
    }
    std::array<char, 4096> buffer;
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      ahead_.clear();
      return Outcome::kInterrupted;
    }
    if (got <= 0) {
      at_end_ = true;
    } else {
      ahead_.append(buffer.data(), static_cast<size_t>(got));
    }
  }
}

}  // namespace octavo::cli

#include "cli/streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace octavo::cli {
namespace {

// Returns 0, or the errno of the write that failed.
int WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

Status CannotRead(const std::string& path, int error) {
  const std::string message = fmt::format("cannot read {}: {}", path, std::strerror(error));
  return error == ENOENT ? Status::NotFound(message) : Status::Unavailable(message);
}

Status CannotWrite(const std::string& path, int error) {
  return Status::Unavailable(fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

// Counts lines and the bytes of the last one, as text comes in pieces.
class LineLengths {
 public:
  explicit LineLengths(size_t max_bytes) : max_bytes_(max_bytes) {}

  // False if a line became too long: number() says which.
  bool Add(std::string_view piece) {
    while (true) {
      const size_t end = piece.find('\n');
      num_bytes_ += std::min(end, piece.size());
      if (num_bytes_ > max_bytes_) return false;
      if (end == std::string_view::npos) return true;
      piece.remove_prefix(end + 1);
      num_bytes_ = 0;
      ++number_;
    }
  }
  size_t number() const { return number_; }

 private:
  size_t max_bytes_;
  size_t num_bytes_ = 0;
  size_t number_ = 1;
};

}  // namespace

void PrepareStandardStreams() {
  // A closed stream becomes one whose use fails: stdin opened for writing, the others for reading.
  const std::array<int, 3> modes = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
      // open() returns the lowest free descriptor, which is this one.
      if (open("/dev/null", modes[static_cast<size_t>(descriptor)]) < 0) return;
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
}

bool StdinIsTerminal() { return isatty(STDIN_FILENO) == 1; }
bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }
bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

Status WriteStdout(std::string_view text) {
  const int error = WriteAll(STDOUT_FILENO, text);
  if (error == 0) return Status::Ok();
  if (error == EPIPE) return Status::Unavailable("");  // as quiet as the signal would have been
  return Status::Unavailable(
      fmt::format("cannot write to standard output: {}", std::strerror(error)));
}

void WriteStderr(std::string_view text) { WriteAll(STDERR_FILENO, text); }

std::string Printable(std::string_view text) {
  std::string printable(text);
  for (char& byte : printable) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F) byte = ' ';
  }
  return printable;
}

Result<std::string> ReadFileOrStdin(const std::string& path, size_t max_line_bytes) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "standard input" : path;
  const int descriptor =
      is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return CannotRead(name, errno);

  std::string text;
  std::array<char, 65536> buffer;
  int error = 0;
  LineLengths lines(max_line_bytes);
  bool is_too_long = false;
  while (!is_too_long) {
    const ssize_t got = read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    const std::string_view piece(buffer.data(), static_cast<size_t>(got));
    is_too_long = !lines.Add(piece);
    text.append(piece);
  }
  if (!is_stdin) close(descriptor);
  if (error != 0) return CannotRead(name, error);
  if (is_too_long) {
    return Status::DataLoss(
        fmt::format("{}: line {} is longer than {} bytes", name, lines.number(), max_line_bytes));
  }
  return text;
}

Status CheckWritable(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return CannotWrite(path, EISDIR);
    return access(path.c_str(), W_OK) == 0 ? Status::Ok() : CannotWrite(path, errno);
  }
  if (errno != ENOENT) return CannotWrite(path, errno);
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return access(folder.c_str(), W_OK | X_OK) == 0 ? Status::Ok() : CannotWrite(path, errno);
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat first = {}, second = {};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status WriteFile(const std::string& path, std::string_view text) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
  int error = descriptor < 0 ? errno : WriteAll(descriptor, text);
  if (descriptor >= 0 && close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0) return Status::Ok();
  return CannotWrite(path, error);
}

}  // namespace octavo::cli

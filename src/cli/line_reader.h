#pragma once

// Purpose:    reads standard input line by line, and notices Ctrl-C while it waits.
// Ownership:  owns what it has read ahead; nothing else may read standard input meanwhile.
// Threading:  the main thread.
// Invariants: every byte is given out once, in order; the last line needs no line break.

#include <string>

namespace octavo::cli {

class LineReader {
 public:
  enum class Outcome {
    kLine,         // `line` holds one, without its line break
    kInterrupted,  // a signal came first; what was typed is discarded
    kEnd,          // end of input (Ctrl-D), or an error of reading
  };

  Outcome Read(std::string* line);

 private:
  std::string ahead_;
  bool at_end_ = false;
};

}  // namespace octavo::cli

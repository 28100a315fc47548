#pragma once

// Purpose:    Ctrl-C (SIGINT) ends the answer that is being generated, not the program.
// Ownership:  borrows the engine for its own lifetime; restores the former handler at the end.
// Threading:  made and destroyed on the main thread, at most one at a time; the handler itself
//             calls nothing but Engine::Abort.
// Invariants: the handler interrupts a blocking read (no SA_RESTART).

#include <csignal>

#include "octavo/engine.h"

namespace octavo::cli {

class InterruptScope {
 public:
  enum class Then {
    kDefault,  // a second Ctrl-C ends the program
    kAgain,    // every Ctrl-C only ends the answer
  };

  InterruptScope(Engine& engine, Then then);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // True if Ctrl-C came since the last call.
  bool TakeInterrupted();

 private:
  struct sigaction former_ = {};
};

}  // namespace octavo::cli

#include "cli/interrupt.h"

#include <atomic>

namespace octavo::cli {
namespace {

// What the handler may touch: lock-free atomics only.
std::atomic<Engine*> g_engine = nullptr;
std::atomic<bool> g_interrupted = false;
static_assert(std::atomic<Engine*>::is_always_lock_free);

void OnInterrupt(int /*signal*/) {
  g_interrupted.store(true);
  if (Engine* engine = g_engine.load()) engine->Abort();
}

}  // namespace

InterruptScope::InterruptScope(Engine& engine, Then then) {
  g_interrupted.store(false);
  g_engine.store(&engine);
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = then == Then::kDefault ? static_cast<int>(SA_RESETHAND) : 0;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &former_, nullptr);
  g_engine.store(nullptr);
}

bool InterruptScope::TakeInterrupted() { return g_interrupted.exchange(false); }

}  // namespace octavo::cli

#pragma once

// Purpose:    the only place that reads environment variables.
// Threading:  any thread, as long as nobody calls setenv at the same time.
// Invariants: an empty variable counts as absent.

#include <optional>
#include <string>

namespace octavo::base {

std::optional<std::string> ReadEnvironment(const char* name);

// $XDG_CACHE_HOME/octavo, or $HOME/.cache/octavo; absent if neither is set to an absolute path. The
// folder need not exist.
std::optional<std::string> CacheDirectory();

}  // namespace octavo::base

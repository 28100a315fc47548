#include "structured/library_log.h"

#include <stdexcept>

namespace octavo::structured {
namespace {

thread_local std::string first_warning;

}  // namespace

void ClearLibraryWarnings() { first_warning.clear(); }

const std::string& FirstLibraryWarning() { return first_warning; }

}  // namespace octavo::structured

// The hooks that the library is built to call (XGRAMMAR_LOG_CUSTOMIZE).
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string&, int, int, const std::string& message) {
  std::string& warning = octavo::structured::first_warning;
  if (warning.empty()) warning = message;
}

}  // namespace xgrammar

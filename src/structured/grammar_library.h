#pragma once

// Purpose:    the types that wrap the grammar library, for this layer's sources alone.
// Ownership:  a CompiledGrammar owns its tables, and shares the vocabulary with all others.
// Threading:  immutable.
// Invariants: none.

#include <xgrammar/xgrammar.h>

#include <cstdint>

namespace octavo::structured {

class CompiledGrammar {
 public:
  explicit CompiledGrammar(xgrammar::CompiledGrammar compiled) : compiled_(std::move(compiled)) {}

  const xgrammar::CompiledGrammar& compiled() const { return compiled_; }
  int64_t memory_bytes() const { return static_cast<int64_t>(compiled_.MemorySizeBytes()); }

 private:
  xgrammar::CompiledGrammar compiled_;
};

}  // namespace octavo::structured

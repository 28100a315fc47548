#pragma once

// Purpose:    the grammars that were used last, within a budget of bytes.
// Ownership:  shares the grammars with whoever uses them.
// Threading:  one thread at a time.
// Invariants: bytes() <= max_bytes; what was used longest ago goes first.

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "structured/grammar_matcher.h"

namespace octavo::structured {

class GrammarCache {
 public:
  explicit GrammarCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if there is none.
  std::shared_ptr<const CompiledGrammar> Find(const std::string& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->grammar;
  }

  // Keeps it if it fits at all.
  void Put(const std::string& key, std::shared_ptr<const CompiledGrammar> grammar, int64_t bytes) {
    if (bytes > max_bytes_ || by_key_.contains(key)) return;
    while (bytes_ + bytes > max_bytes_) {
      bytes_ -= entries_.back().bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
    entries_.push_front({key, std::move(grammar), bytes});
    by_key_.emplace(key, entries_.begin());
    bytes_ += bytes;
  }

  bool Contains(const std::string& key) const { return by_key_.contains(key); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
    int64_t bytes;
  };

  const int64_t max_bytes_;
  int64_t bytes_ = 0;
  std::list<Entry> entries_;  // used last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace octavo::structured

#include "base/memory_ledger.h"

#include <utility>

#include "base/check.h"

namespace octavo {

std::string_view MemoryTagName(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::kWeights:
      return "weights";
    case MemoryTag::kKvCache:
      return "kv_cache";
    case MemoryTag::kActivations:
      return "activations";
    case MemoryTag::kTokenizer:
      return "tokenizer";
    case MemoryTag::kScratch:
      return "scratch";
    case MemoryTag::kOther:
      return "other";
  }
  OCTAVO_CHECK(false, "not a MemoryTag");
  return {};
}

}  // namespace octavo

namespace octavo::base {

MemoryReservation::~MemoryReservation() { Release(); }

MemoryReservation::MemoryReservation(MemoryReservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      tag_(other.tag_),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this != &other) {
    Release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    tag_ = other.tag_;
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void MemoryReservation::Resize(int64_t bytes) {
  OCTAVO_CHECK(ledger_ != nullptr, "this reservation has no ledger");
  OCTAVO_CHECK(bytes >= 0, "a reservation is not negative");
  ledger_->AddActual(tag_, bytes - bytes_);
  bytes_ = bytes;
}

void MemoryReservation::Release() noexcept {
  if (ledger_ != nullptr) ledger_->AddActual(tag_, -bytes_);
}

MemoryLedger::~MemoryLedger() {
  for (const int64_t bytes : actual_.bytes) {
    OCTAVO_CHECK(bytes == 0, "a memory reservation outlives its ledger");
  }
}

void MemoryLedger::SetPlanned(MemoryTag tag, int64_t bytes) {
  OCTAVO_CHECK(bytes >= 0, "planned memory is not negative");
  const std::lock_guard lock(mutex_);
  planned_[tag] = bytes;
}

MemoryReservation MemoryLedger::Reserve(MemoryTag tag, int64_t bytes) {
  OCTAVO_CHECK(bytes >= 0, "a reservation is not negative");
  AddActual(tag, bytes);
  return {this, tag, bytes};
}

MemoryUsage MemoryLedger::planned() const {
  const std::lock_guard lock(mutex_);
  return planned_;
}

MemoryUsage MemoryLedger::actual() const {
  const std::lock_guard lock(mutex_);
  return actual_;
}

void MemoryLedger::AddActual(MemoryTag tag, int64_t delta_bytes) {
  const std::lock_guard lock(mutex_);
  actual_[tag] += delta_bytes;
}

}  // namespace octavo::base

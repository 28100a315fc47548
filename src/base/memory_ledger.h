#pragma once

// Purpose:    memory by purpose: what start-up planned and what is held now, under the same tags.
// Ownership:  a MemoryReservation belongs to whoever holds the memory, beside the memory itself;
//             the ledger outlives it.
// Threading:  any thread; a snapshot is consistent with itself.
// Invariants: actual = the sum of the living reservations, tag by tag; checked to be zero when the
//             ledger dies.

#include <cstdint>
#include <mutex>

#include "octavo/memory_plan.h"

namespace octavo::base {

class MemoryLedger;

// Accounts for `bytes` under one tag for as long as it lives. Move-only; the default one accounts
// for nothing.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  ~MemoryReservation();
  MemoryReservation(MemoryReservation&& other) noexcept;
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;

  int64_t bytes() const { return bytes_; }
  // REQUIRES: made by a ledger, bytes >= 0.
  void Resize(int64_t bytes);

 private:
  friend class MemoryLedger;
  MemoryReservation(MemoryLedger* ledger, MemoryTag tag, int64_t bytes)
      : ledger_(ledger), tag_(tag), bytes_(bytes) {}
  void Release() noexcept;

  MemoryLedger* ledger_ = nullptr;
  MemoryTag tag_ = MemoryTag::kOther;
  int64_t bytes_ = 0;
};

class MemoryLedger {
 public:
  MemoryLedger() = default;
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // REQUIRES: bytes >= 0.
  void SetPlanned(MemoryTag tag, int64_t bytes);
  [[nodiscard]] MemoryReservation Reserve(MemoryTag tag, int64_t bytes);

  MemoryUsage planned() const;
  MemoryUsage actual() const;

 private:
  friend class MemoryReservation;
  void AddActual(MemoryTag tag, int64_t delta_bytes);

  mutable std::mutex mutex_;
  MemoryUsage planned_;  // guarded by mutex_
  MemoryUsage actual_;   // guarded by mutex_
};

}  // namespace octavo::base

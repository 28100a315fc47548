#pragma once

// Purpose:    the bytes of all bodies that are being received or wait to be read, against a limit:
//             many clients must not fill the memory together.
// Ownership:  a BodyLease borrows the budget and gives back what it took.
// Threading:  the I/O thread.
// Invariants: the sum of all leases is at most the limit.

#include <cstdint>
#include <utility>

namespace octavo::server {

class BodyBudget {
 public:
  explicit BodyBudget(uint64_t limit_bytes) : left_(limit_bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

 private:
  friend class BodyLease;
  uint64_t left_;
};

class BodyLease {
 public:
  explicit BodyLease(BodyBudget& budget) : budget_(&budget) {}
  BodyLease(BodyLease&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyLease& operator=(BodyLease&&) = delete;
  ~BodyLease() { budget_->left_ += bytes_; }

  // Holds `bytes` in all from now on; false, and no change, if the budget has not that much.
  bool GrowTo(uint64_t bytes) {
    if (bytes <= bytes_) return true;
    if (bytes - bytes_ > budget_->left_) return false;
    budget_->left_ -= bytes - bytes_;
    bytes_ = bytes;
    return true;
  }

 private:
  BodyBudget* budget_;
  uint64_t bytes_ = 0;
};

}  // namespace octavo::server

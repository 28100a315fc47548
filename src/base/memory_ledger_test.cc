#include "base/memory_ledger.h"

#include <gtest/gtest.h>

#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace octavo::base {
namespace {

TEST(MemoryLedgerTest, AReservationCountsUnderItsTagWhileItLives) {
  MemoryLedger ledger;
  {
    const MemoryReservation weights = ledger.Reserve(MemoryTag::kWeights, 100);
    const MemoryReservation cache = ledger.Reserve(MemoryTag::kKvCache, 20);
    EXPECT_EQ(ledger.actual()[MemoryTag::kWeights], 100);
    EXPECT_EQ(ledger.actual()[MemoryTag::kKvCache], 20);
    EXPECT_EQ(ledger.actual().total(), 120);
  }
  EXPECT_EQ(ledger.actual().total(), 0);
}

TEST(MemoryLedgerTest, MovingAReservationCountsItOnce) {
  MemoryLedger ledger;
  MemoryReservation first = ledger.Reserve(MemoryTag::kScratch, 100);
  MemoryReservation second = ledger.Reserve(MemoryTag::kScratch, 7);

  second = std::move(first);
  EXPECT_EQ(ledger.actual()[MemoryTag::kScratch], 100);

  const MemoryReservation third = std::move(second);
  EXPECT_EQ(third.bytes(), 100);
  EXPECT_EQ(ledger.actual()[MemoryTag::kScratch], 100);
}

TEST(MemoryLedgerTest, ResizingReplacesTheOldSize) {
  MemoryLedger ledger;
  MemoryReservation reservation = ledger.Reserve(MemoryTag::kActivations, 100);

  reservation.Resize(30);

  EXPECT_EQ(reservation.bytes(), 30);
  EXPECT_EQ(ledger.actual()[MemoryTag::kActivations], 30);
}

TEST(MemoryLedgerTest, PlannedAndActualAreKeptApart) {
  MemoryLedger ledger;
  ledger.SetPlanned(MemoryTag::kKvCache, 500);
  ledger.SetPlanned(MemoryTag::kKvCache, 400);
  const MemoryReservation cache = ledger.Reserve(MemoryTag::kKvCache, 380);

  EXPECT_EQ(ledger.planned()[MemoryTag::kKvCache], 400);
  EXPECT_EQ(ledger.actual()[MemoryTag::kKvCache], 380);
}

TEST(MemoryLedgerTest, ReservationsOfManyThreadsAddUp) {
  MemoryLedger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 1000; ++i) {
        MemoryReservation reservation = ledger.Reserve(MemoryTag::kOther, 3);
        reservation.Resize(5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(ledger.actual().total(), 0);
}

TEST(MemoryLedgerDeathTest, AReservationMustNotOutliveItsLedger) {
  EXPECT_DEATH(
      {
        MemoryReservation survivor;
        MemoryLedger ledger;
        survivor = ledger.Reserve(MemoryTag::kOther, 1);
      },
      "outlives its ledger");
}

TEST(MemoryTagTest, NamesAreTheKeysOfTheReports) {
  std::vector<std::string_view> names;
  for (size_t tag = 0; tag < kNumMemoryTags; ++tag) {
    names.push_back(MemoryTagName(static_cast<MemoryTag>(tag)));
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"weights", "kv_cache", "activations", "tokenizer",
                                                  "scratch", "other"}));
}

}  // namespace
}  // namespace octavo::base

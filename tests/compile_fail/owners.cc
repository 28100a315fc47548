#include <utility>

#include "base/aligned_memory.h"
#include "base/memory_ledger.h"
#include "base/thread_pool.h"

void Use(octavo::base::AlignedBuffer& buffer, octavo::base::MemoryReservation& reservation) {
  octavo::base::AlignedBuffer moved_buffer = std::move(buffer);
  octavo::base::MemoryReservation moved_reservation = std::move(reservation);
  octavo::base::ThreadPool pool(1);
#ifdef BUFFER_IS_COPIED
  octavo::base::AlignedBuffer copy = moved_buffer;
#endif
#ifdef RESERVATION_IS_COPIED
  octavo::base::MemoryReservation copy = moved_reservation;
#endif
#ifdef THREAD_POOL_IS_COPIED
  octavo::base::ThreadPool copy = pool;
#endif
}

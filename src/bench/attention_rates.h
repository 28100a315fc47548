#pragma once

// Purpose:    attention over the K and V of a long context, with the default model's heads: its
//             part of what `octavo bench kernels` prints.
// Ownership:  makes its own cache.
// Threading:  one thread calls; the pool's work.
// Invariants: each pass goes to another layer, and all layers together take the memory asked for,
//             in blocks that lie as in an engine; the threads share out kv heads and chunks.

#include <cstddef>
#include <functional>

#include "base/thread_pool.h"
#include "bench/kernel_rates.h"
#include "kernels/kernel_table.h"
#include "octavo/status.h"

namespace octavo::bench {

// Measures one row, and as many as a prompt attends together, over `cache_bytes` of K and V in
// `dtype`. `on_row` gets each rate without its share. kResourceExhausted if there is no memory.
Status MeasureAttentionRates(const kernels::AttentionKernels& kernels, base::ThreadPool& pool,
                             kernels::KvDtype dtype, size_t cache_bytes, double seconds,
                             const std::function<void(const KernelRate&)>& on_row);

}  // namespace octavo::bench

#pragma once

// Purpose:    how cost grows with what a cache is made to bear: tokens in a sequence, sequences in
//             a step, requests that wait, blocks in the pool; as `octavo bench growth` prints.
// Ownership:  borrows the engine.
// Threading:  one thread drives the engine.
// Invariants: prompts are made by a fixed generator, and end-of-text is ignored, so that every run
//             does the same work.

#include <cstdint>
#include <utility>
#include <vector>

#include "octavo/engine.h"

namespace octavo::bench {

// (size, rate), in the order of the sizes.
using GrowthCurve = std::vector<std::pair<double, double>>;

// Tokens/s of one stream that decodes after prompts of these lengths (tokens).
Result<GrowthCurve> DecodeRateByContext(Engine& engine, const std::vector<int32_t>& contexts);

// Output tokens/s of this many sequences together, of short context.
Result<GrowthCurve> OutputRateByBatch(Engine& engine, const std::vector<int32_t>& batches);

// Output tokens/s of as many sequences as the engine runs at once (`max_num_seqs` of its options),
// while this many requests wait. Errors: an engine that takes all of them in, so that none waits.
Result<GrowthCurve> OutputRateByWaiting(Engine& engine, int32_t max_num_seqs,
                                        const std::vector<int32_t>& waiting);

// Blocks/s that a pool of this many blocks, full of cached content, takes through their life: taken
// from the oldest content, filled, published, given back. No model and no bytes.
GrowthCurve BlockRateByPool(const std::vector<int32_t>& pools, double seconds);

}  // namespace octavo::bench

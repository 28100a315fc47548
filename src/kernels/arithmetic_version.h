#pragma once

// Purpose:    the version of docs/contracts/arithmetic.md that the kernels implement. A change of
//             any rule there bumps it.

namespace octavo::kernels {

inline constexpr int kArithmeticVersion = 1;
inline constexpr int kActivationGroup = 32;        // elements per activation scale
inline constexpr int kAttentionTileTokens = 32;    // positions per tile
inline constexpr int kAttentionChunkTokens = 256;  // positions per online-softmax chunk

}  // namespace octavo::kernels

#pragma once

// Purpose:    how many heap allocations the test program has made so far. For tests only:
//             allocation_test.cc defines it, and replaces operator new.
// Threading:  any thread.

#include <cstddef>

namespace octavo::kvcache {

size_t NumAllocations();

}  // namespace octavo::kvcache

#pragma once

// Purpose:    the filters that apply another filter or a test to each element: map, select, reject,
//             selectattr, rejectattr.
// Ownership:  a constant table.
// Threading:  any thread.
// Invariants: they give generators, as in Jinja2: a result may be walked once.

#include <vector>

#include "jinja/functions.h"

namespace octavo::jinja {

std::vector<NamedFunction<Filter>> SelectionFilters();

}  // namespace octavo::jinja

#pragma once

// Purpose:    Python's operations on strings, shared by filters and methods.
// Ownership:  none.
// Threading:  one thread.
// Invariants: provenance goes with every character; Markup stays Markup.

#include <cstdint>
#include <string_view>
#include <vector>

#include "jinja/tracked_string.h"
#include "jinja/value.h"

namespace octavo::jinja {

TrackedString ToUpper(Execution& execution, const TrackedString& text);
TrackedString ToLower(Execution& execution, const TrackedString& text);
// The first character in title case, the rest in lower case.
TrackedString Capitalize(Execution& execution, const TrackedString& text);
TrackedString SwapCase(Execution& execution, const TrackedString& text);
TrackedString TitleCase(Execution& execution, const TrackedString& text);  // str.title

struct Sides {
  bool left = true;
  bool right = true;
};
// Without `chars`, white space.
TrackedString Strip(Execution& execution, const TrackedString& text, const TrackedString* chars,
                    Sides sides);

// The first `count` occurrences, all if it is negative.
TrackedString Replace(Execution& execution, const TrackedString& text, const TrackedString& old,
                      const TrackedString& replacement, int64_t count);

std::vector<TrackedString> SplitLines(Execution& execution, const TrackedString& text,
                                      bool keep_ends);
// text.split(separator, max): without separator at runs of white space. max < 0: no limit.
std::vector<TrackedString> Split(Execution& execution, const TrackedString& text,
                                 const TrackedString* separator, int64_t max);
std::vector<TrackedString> SplitFromRight(Execution& execution, const TrackedString& text,
                                          const TrackedString* separator, int64_t max);

// Fails unless every item is a string.
TrackedString Join(Execution& execution, const TrackedString& separator,
                   const std::vector<Value>& items);

// Fills up to `width` characters; align: '<', '>', '^' (the odd one right) or 'c' (str.center).
TrackedString Pad(Execution& execution, const TrackedString& text, int64_t width,
                  const TrackedString& fill, char align);

}  // namespace octavo::jinja

#pragma once

// Purpose:    from a file's metadata to a description of its vocabulary, and from that to a
//             tokenizer. LoadTokenizer of tokenizer.h is the two in a row; tests and fuzzers use
//             the second alone.
// Ownership:  what is returned keeps nothing of the file or of the description.
// Threading:  pure functions.
// Invariants: none beyond those of the results.

#include <memory>

#include "octavo/status.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace octavo::text {

Result<VocabularyData> ReadVocabulary(const formats::GgufFile& file);

Result<std::unique_ptr<Tokenizer>> MakeTokenizer(const VocabularyData& data);

}  // namespace octavo::text

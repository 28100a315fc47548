// Fuzzes structured outputs: what the guard accepts compiles or is refused with a message, every
// token that a mask allows is accepted, and no text makes anything crash, hang or print.
//
// Input: one byte that chooses the kind (0 a schema, 1 a regex, 2 a grammar, 3 choices split at
// line feeds), one byte that chooses the tokens, the text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "structured/grammar_compiler.h"
#include "structured/grammar_guard.h"
#include "text/tokenizer_factory.h"
#include "text/toy_vocabulary.h"

namespace octavo::structured {
namespace {

constexpr int kMaxSteps = 16;

const text::Tokenizer& ToyTokenizer() {
  static const std::unique_ptr<text::Tokenizer> tokenizer =
      *text::MakeTokenizer(text::testing::ToyBpe());
  return *tokenizer;
}

GrammarCompiler& Compiler() {
  static const TokenId end[] = {text::testing::kToyStop};
  static GrammarCompiler compiler(ToyTokenizer(), end, {.max_cache_bytes = 0});
  return compiler;
}

StructuredOutputs OutputsOf(int kind, std::string text) {
  StructuredOutputs outputs;
  switch (kind) {
    case 0:
      outputs.json = std::move(text);
      break;
    case 1:
      outputs.regex = std::move(text);
      break;
    case 2:
      outputs.grammar = std::move(text);
      break;
    default:
      for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        outputs.choice.push_back(text.substr(begin, end - begin));
        begin = end + 1;
      }
  }
  return outputs;
}

void Walk(const std::shared_ptr<const CompiledGrammar>& grammar, uint32_t random) {
  GrammarMatcher matcher(grammar);
  TokenBitmask mask(ToyTokenizer().vocab_size());
  for (int step = 0; step < kMaxSteps && !matcher.IsTerminated(); ++step) {
    OCTAVO_CHECK(matcher.FillMask(&mask), "the library fills a mask");
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < mask.vocab_size(); ++id) {
      if (mask.allows(id)) allowed.push_back(id);
    }
    if (allowed.empty()) return;
    random = random * 1664525 + 1013904223;
    const TokenId token = allowed[(random >> 8) % allowed.size()];
    OCTAVO_CHECK(matcher.Accept(token), "a token that the mask allows is accepted");
  }
}

}  // namespace
}  // namespace octavo::structured

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  using namespace octavo::structured;  // NOLINT(google-build-using-namespace)
  if (num_bytes < 2) return 0;
  const auto outputs =
      OutputsOf(bytes[0] % 4, std::string(reinterpret_cast<const char*>(bytes) + 2, num_bytes - 2));
  const uint32_t random = bytes[1];
  const auto grammar = Compiler().Compile(outputs);
  if (grammar.ok()) {
    Walk(*grammar, random);
  } else {
    OCTAVO_CHECK(!grammar.status().message().empty(), "an error without a message");
    OCTAVO_CHECK(grammar.status().code() == octavo::StatusCode::kInvalidArgument,
                 grammar.status().message());
  }
  return 0;
}

#include "text/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <utility>

namespace octavo::text {
namespace {

// Backtracking steps per match. The patterns of pretokenizer.cc need a few per byte of the match; a
// limit turns one that does not into an error instead of a hang.
constexpr uint32_t kMatchLimit = 4'000'000'000;
constexpr uint32_t kHeapLimitKib = 1 << 20;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using CodePtr = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return std::string(reinterpret_cast<const char*>(buffer));
}

}  // namespace

struct RegexSplitter::Code {
  CodePtr pattern;
  MatchContextPtr limits;
};

namespace {

Status SplitOne(const RegexSplitter::Code& code, pcre2_match_data* match, std::string_view text,
                std::vector<std::string_view>* pieces) {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  // The check of the whole subject at every match would make the split quadratic.
  uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  size_t done = 0;
  while (done < text.size()) {
    const int rc = pcre2_match(code.pattern.get(), subject, text.size(), done, options, match,
                               code.limits.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && (options & PCRE2_NO_JIT) == 0) {
      options |= PCRE2_NO_JIT;  // the interpreter keeps its stack on the heap
      continue;
    }
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      return Status::ResourceExhausted("splitting " + std::to_string(text.size()) +
                                       " bytes of text: " + ErrorText(rc));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    if (bounds[0] > done) pieces->push_back(text.substr(done, bounds[0] - done));
    pieces->push_back(text.substr(bounds[0], bounds[1] - bounds[0]));
    done = bounds[1];
  }
  if (done < text.size()) pieces->push_back(text.substr(done));
  return Status::Ok();
}

}  // namespace

RegexSplitter::RegexSplitter(std::unique_ptr<Code> code) : code_(std::move(code)) {}
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

Result<RegexSplitter> RegexSplitter::Compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  auto code = std::make_unique<Code>();
  code->pattern.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                                    &error_offset, nullptr));
  if (code->pattern == nullptr) {
    return Status::Internal("pre-tokenizer pattern, offset " + std::to_string(error_offset) + ": " +
                            ErrorText(error));
  }
  // Without JIT (a hardened kernel may forbid it) pcre2_match interprets: slower, the same matches.
  (void)pcre2_jit_compile(code->pattern.get(), PCRE2_JIT_COMPLETE);
  code->limits.reset(pcre2_match_context_create(nullptr));
  if (code->limits == nullptr) return Status::ResourceExhausted("no memory for a match context");
  pcre2_set_match_limit(code->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(code->limits.get(), kHeapLimitKib);
  return RegexSplitter(std::move(code));
}

Status RegexSplitter::Split(std::span<const std::string_view> texts,
                            std::vector<std::string_view>* pieces) const {
  const MatchDataPtr match(pcre2_match_data_create(1, nullptr));
  if (match == nullptr) return Status::ResourceExhausted("no memory for a match");
  for (const std::string_view text : texts) {
    if (Status s = SplitOne(*code_, match.get(), text, pieces); !s.ok()) return s;
  }
  return Status::Ok();
}

size_t RegexSplitter::memory_bytes() const {
  size_t pattern_bytes = 0, jit_bytes = 0;
  pcre2_pattern_info(code_->pattern.get(), PCRE2_INFO_SIZE, &pattern_bytes);
  pcre2_pattern_info(code_->pattern.get(), PCRE2_INFO_JITSIZE, &jit_bytes);
  return pattern_bytes + jit_bytes;
}

}  // namespace octavo::text

#include "text/pretokenizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "formats/gguf_value.h"

namespace octavo::text {
namespace {

// Unicode's White_Space, as it stands inside a character class. PCRE2's own \s also takes U+180E,
// which the pre-tokenizers that the vocabularies were trained with do not.
constexpr std::string_view kSpaces =
    R"(\t-\r\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kGpt2Names[] = {"gpt-2", "phi-2", "mpt", "olmo", "gigachat", "jais"};
constexpr std::string_view kGpt2Patterns[] = {kGpt2};

constexpr std::string_view kSmolLmNames[] = {"smollm",    "starcoder", "refact",     "command-r",
                                             "codeshell", "exaone",    "minerva-7b", "mellum2"};
constexpr std::string_view kSmolLmPatterns[] = {R"(\p{N})", kGpt2};

constexpr std::string_view kLlama3Names[] = {"llama-bpe", "llama3",  "llama-v3",
                                             "falcon3",   "pixtral", "lfm2"};
constexpr std::string_view kLlama3Patterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kQwen2Names[] = {"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan"};
constexpr std::string_view kQwen2Patterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kQwen35Names[] = {"qwen35"};
constexpr std::string_view kQwen35Patterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// The letters that have case, as this vocabulary lists them.
constexpr std::string_view kDeepSeekLlmNames[] = {"deepseek-llm"};
constexpr std::string_view kDeepSeekLlmPatterns[] = {
    R"([\r\n])",
    R"(\s?[A-Za-z\xB5\xC0-\xD6\xD8-\xF6\xF8-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    // \s+$ where a match may begin only at the first space of a run: the same matches, and not
    // quadratic.
    R"((?<!\s)\s++\z)", R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", R"(\p{N}+)"};

constexpr std::string_view kDeepSeekCoderNames[] = {"deepseek-coder"};
constexpr std::string_view kDeepSeekCoderPatterns[] = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", R"(\p{N})"};

constexpr std::string_view kDeepSeekV3Names[] = {"deepseek-v3"};
constexpr std::string_view kDeepSeekV3Patterns[] = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kFalconNames[] = {"falcon"};
constexpr std::string_view kFalconPatterns[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2,
                                                R"([0-9][0-9][0-9])"};

constexpr std::string_view kTekkenNames[] = {"tekken"};
constexpr std::string_view kTekkenPatterns[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kGpt4oNames[] = {"gpt-4o", "llama4"};
constexpr std::string_view kGpt4oPatterns[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kDefaultNames[] = {"default"};
constexpr std::string_view kDefaultPatterns[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)",
                                                 R"([0-9][0-9][0-9])"};

constexpr PreTokenizerSpec kSpecs[] = {
    {kGpt2Names, kGpt2Patterns},
    {kSmolLmNames, kSmolLmPatterns},
    {kLlama3Names, kLlama3Patterns, true, true},
    {kQwen2Names, kQwen2Patterns},
    {kQwen35Names, kQwen35Patterns},
    {kDeepSeekLlmNames, kDeepSeekLlmPatterns},
    {kDeepSeekCoderNames, kDeepSeekCoderPatterns},
    {kDeepSeekV3Names, kDeepSeekV3Patterns},
    {kFalconNames, kFalconPatterns},
    {kTekkenNames, kTekkenPatterns, true, true},
    {kGpt4oNames, kGpt4oPatterns},
    {kDefaultNames, kDefaultPatterns},
};

// Writes out \s and \S, inside and outside of character classes.
std::string ExpandSpaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out.append(in_class ? "" : "[").append(kSpaces).append(in_class ? "" : "]");
      } else if (escaped == 'S') {  // outside of classes only
        out.append("[^").append(kSpaces).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

Result<const PreTokenizerSpec*> FindPreTokenizerSpec(std::string_view name) {
  if (name.empty()) name = "default";
  for (const PreTokenizerSpec& spec : kSpecs) {
    if (std::find(spec.names.begin(), spec.names.end(), name) != spec.names.end()) return &spec;
  }
  return Status::Unimplemented("tokenizer.ggml.pre is " + formats::Quote(name) +
                               ", a pre-tokenizer that this version does not know");
}

Result<PreTokenizer> PreTokenizer::Make(const PreTokenizerSpec& spec) {
  PreTokenizer pre_tokenizer;
  for (const std::string_view pattern : spec.patterns) {
    Result<RegexSplitter> splitter = RegexSplitter::Compile(ExpandSpaces(pattern));
    if (!splitter.ok()) return splitter.status();
    pre_tokenizer.splitters_.push_back(*std::move(splitter));
  }
  return pre_tokenizer;
}

Status PreTokenizer::Split(std::string_view text, std::vector<std::string_view>* pieces) const {
  pieces->clear();
  if (text.empty()) return Status::Ok();
  pieces->push_back(text);
  std::vector<std::string_view> finer;
  for (const RegexSplitter& splitter : splitters_) {
    finer.clear();
    if (Status s = splitter.Split(*pieces, &finer); !s.ok()) return s;
    std::swap(*pieces, finer);
  }
  return Status::Ok();
}

size_t PreTokenizer::memory_bytes() const {
  size_t bytes = 0;
  for (const RegexSplitter& splitter : splitters_) bytes += splitter.memory_bytes();
  return bytes;
}

}  // namespace octavo::text

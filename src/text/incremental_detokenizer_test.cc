#include "text/incremental_detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "text/text_test_util.h"
#include "text/utf8.h"

namespace octavo::text {
namespace {

using testing::kToyFirstByte;
using testing::Made;
using testing::ToyBpe;
using testing::ToySpm;

TokenId Byte(uint8_t byte) { return kToyFirstByte + byte; }

TEST(IncrementalDetokenizerTest, HoldsACharacterBackUntilItIsWhole) {
  const auto tokenizer = Made(ToyBpe());
  IncrementalDetokenizer detokenizer(*tokenizer, {});

  EXPECT_EQ(detokenizer.Push(Byte('a')), "a");
  EXPECT_EQ(detokenizer.Push(Byte(0xF0)), "");
  EXPECT_EQ(detokenizer.Push(Byte(0x9F)), "");
  EXPECT_EQ(detokenizer.Push(Byte(0x98)), "");
  EXPECT_EQ(detokenizer.Push(Byte(0x80)), "\xF0\x9F\x98\x80");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(IncrementalDetokenizerTest, ReplacesWhatCannotBecomeACharacter) {
  const auto tokenizer = Made(ToyBpe());
  IncrementalDetokenizer detokenizer(*tokenizer, {});

  EXPECT_EQ(detokenizer.Push(Byte(0xFF)), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Push(Byte(0xE2)), "");
  EXPECT_EQ(detokenizer.Push(Byte('x')), "\xEF\xBF\xBDx");
  EXPECT_EQ(detokenizer.Push(Byte(0xE2)), "");
  EXPECT_EQ(detokenizer.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(IncrementalDetokenizerTest, SkipsSpecialTokensUnlessAskedNotTo) {
  const auto tokenizer = Made(ToyBpe());
  IncrementalDetokenizer skipping(*tokenizer, {.skip_special = true});
  IncrementalDetokenizer showing(*tokenizer, {.skip_special = false});

  EXPECT_EQ(skipping.Push(testing::kToyStop), "");
  EXPECT_EQ(skipping.Push(testing::kToyUser), "<tool>");
  EXPECT_EQ(showing.Push(testing::kToyStop), "<|im_end|>");
}

TEST(IncrementalDetokenizerTest, DropsTheFirstSpaceOnlyAtTheStartOfAText) {
  const auto tokenizer = Made(ToySpm());
  const TokenId the = *tokenizer->FindToken("\xE2\x96\x81the");
  IncrementalDetokenizer whole(*tokenizer, {});
  IncrementalDetokenizer rest(*tokenizer, {.at_text_start = false});

  EXPECT_EQ(whole.Push(1), "");  // <s> is skipped, so the text has not begun
  EXPECT_EQ(whole.Push(the), "the");
  EXPECT_EQ(whole.Push(the), " the");
  EXPECT_EQ(rest.Push(the), " the");
}

TEST(IncrementalDetokenizerTest, PiecesAreWholeCharactersAndMakeUpTheText) {
  const std::unique_ptr<Tokenizer> tokenizers[] = {Made(ToyBpe()), Made(ToySpm())};
  const bool held =
      rc::check("pieces = whole", [&](const std::vector<uint16_t>& raw, bool skip_special) {
        for (const auto& tokenizer : tokenizers) {
          IncrementalDetokenizer detokenizer(*tokenizer, {.skip_special = skip_special});
          std::vector<TokenId> ids;
          std::string text;
          for (const uint16_t number : raw) {
            ids.push_back(number % tokenizer->vocab_size());
            const std::string piece = detokenizer.Push(ids.back());
            RC_ASSERT(!ValidateUtf8(piece).has_value());
            text += piece;
            const std::string so_far = tokenizer->Decode(ids, skip_special);
            RC_ASSERT(so_far.size() <= text.size() + 3);  // at most 3 bytes are held back
          }
          text += detokenizer.Flush();
          RC_ASSERT(text == ReplaceInvalidUtf8(tokenizer->Decode(ids, skip_special)));
        }
      });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace octavo::text

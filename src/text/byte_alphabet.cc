#include "text/byte_alphabet.h"

#include <array>
#include <string>

namespace octavo::text {
namespace {

constexpr uint16_t kFirstSubstitute = 0x100;
constexpr size_t kNumCharacters = 0x144;

bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> spellings;
  std::array<int16_t, kNumCharacters> byte_of{};  // -1 = not in the alphabet

  Alphabet() {
    byte_of.fill(-1);
    uint16_t next = kFirstSubstitute;
    for (int byte = 0; byte < 256; ++byte) {
      const uint16_t character = StandsForItself(byte) ? static_cast<uint16_t>(byte) : next++;
      byte_of[character] = static_cast<int16_t>(byte);
      std::string& out = spellings[static_cast<size_t>(byte)];
      if (character >= 0x80) {
        out += static_cast<char>(0xC0 | (character >> 6));
        out += static_cast<char>(0x80 | (character & 0x3F));
      } else {
        out += static_cast<char>(character);
      }
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::string_view ByteSpelling(uint8_t byte) { return TheAlphabet().spellings[byte]; }

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  const Alphabet& alphabet = TheAlphabet();
  std::string bytes;
  for (size_t i = 0; i < spelling.size();) {
    const auto unit = static_cast<uint8_t>(spelling[i++]);
    size_t character = unit;
    if (unit >= 0x80) {
      if (unit < 0xC2 || unit > 0xC5 || i == spelling.size()) return std::nullopt;
      const auto second = static_cast<uint8_t>(spelling[i++]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      character = static_cast<size_t>(((unit & 0x1F) << 6) | (second & 0x3F));
    }
    if (character >= kNumCharacters || alphabet.byte_of[character] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet.byte_of[character]);
  }
  return bytes;
}

}  // namespace octavo::text

#include "octavo/kvcache/root_key.h"

namespace octavo::kvcache {
namespace {

constexpr int kBytesPerInteger = 8;

void AppendLittleEndian(std::string& bytes, uint64_t value) {
  for (int i = 0; i < kBytesPerInteger; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

RootKey& RootKey::Add(RootField field, std::string_view value) {
  bytes_ += static_cast<char>(field);
  AppendLittleEndian(bytes_, value.size());
  bytes_ += value;
  return *this;
}

RootKey& RootKey::Add(RootField field, int64_t value) {
  std::string text;
  AppendLittleEndian(text, static_cast<uint64_t>(value));
  return Add(field, text);
}

}  // namespace octavo::kvcache

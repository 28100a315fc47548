#pragma once

// Purpose:    a whole regular file, mapped read-only.
// Ownership:  owns the mapping; the bytes die with the object (moving it keeps their address).
// Threading:  the bytes may be read from any thread.
// Invariants: bytes() has the size that the file had when it was opened. Nobody may shorten the
// file while it is mapped: a read
//             past its new end stops the process.

#include <cstddef>
#include <span>
#include <string>

#include "octavo/status.h"

namespace octavo::base {

class MappedFile {
 public:
  // Errors name `path`: it does not exist, is not a regular file, or cannot be read or mapped. An
  // empty file has no bytes.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // `part` is done with for now: the RAM of its pages is given back, and reading them again brings
  // them back. REQUIRES: `part` lies in bytes().
  void ReleasePages(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void Unmap();

  std::span<const std::byte> bytes_;
};

}  // namespace octavo::base

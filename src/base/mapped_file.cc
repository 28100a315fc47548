#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace octavo::base {
namespace {

Status SystemError(StatusCode code, const std::string& path, const char* action, int error) {
  return Status(code, path + ": cannot " + action + ": " + std::generic_category().message(error));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Without O_NONBLOCK a named pipe would wait here for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const int error = errno;
    const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kUnavailable;
    return SystemError(code, path, "open the file", error);
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) {
    return SystemError(StatusCode::kUnavailable, path, "read the file's size", errno);
  }
  if (!S_ISREG(info.st_mode)) return Status::DataLoss(path + ": not a regular file");
  if (info.st_size == 0) return MappedFile({});
  if (static_cast<uint64_t>(info.st_size) > std::numeric_limits<size_t>::max()) {
    return Status::ResourceExhausted(path + ": too large to map");
  }

  const size_t size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    return SystemError(StatusCode::kResourceExhausted, path, "map the file", errno);
  }
  return MappedFile({static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap();
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

MappedFile::~MappedFile() { Unmap(); }

// Whole pages, those at the ends included: nobody can have written to this mapping, so that the
// system finds what it drops in the file.
void MappedFile::ReleasePages(std::span<const std::byte> part) const {
  if (part.empty()) return;
  OCTAVO_CHECK(
      part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + bytes_.size(),
      "a part of the file");
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page_bytes * page_bytes;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // a hint
}

void MappedFile::Unmap() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace octavo::base

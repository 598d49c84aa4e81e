#include "common/base/mapped_file.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"

namespace specdec {
namespace {

// Must not wait for a pipe without a writer. The system would end a name at its NUL, and open
// another file.
int open_for_reading(const std::filesystem::path& path) {
  if (path.native().find('\0') != std::string::npos) {
    fail("{}: no file has a NUL in its name", path.string());
  }
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

// An open file descriptor, closed on destruction; the mapping outlives it.
class ReadDescriptor {
 public:
  explicit ReadDescriptor(const std::filesystem::path& path) : fd_(open_for_reading(path)) {
    if (fd_ < 0) fail("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  }
  ReadDescriptor(const ReadDescriptor&) = delete;
  ReadDescriptor& operator=(const ReadDescriptor&) = delete;
  ~ReadDescriptor() { ::close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const ReadDescriptor file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail("{}: is not a regular file", path.string());
  size_ = status.st_size;
  if (size_ == 0) return;  // an empty file cannot be mapped, and need not be
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    fail("{}: cannot map {} bytes into memory: {}", path.string(), size_, std::strerror(errno));
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

ReadOnce::ReadOnce(std::span<const std::byte> mapped) {
  static const std::size_t page = ::sysconf(_SC_PAGESIZE);
  const auto address = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::size_t before = (page - address % page) % page;  // may share a page with other data
  if (before >= mapped.size()) return;
  const std::size_t size = (mapped.size() - before) / page * page;
  pages_ = {const_cast<std::byte*>(mapped.data()) + before, size};
  if (size > 0) ::madvise(pages_.data(), size, MADV_WILLNEED);
}

ReadOnce::~ReadOnce() {
  if (!pages_.empty()) ::madvise(pages_.data(), pages_.size(), MADV_DONTNEED);
}

std::string read_text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace specdec

#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace specdec {

// A whole file mapped into memory, read-only; unmapped on destruction. Pages are read from disk
// when they are first touched, so opening a file of gigabytes costs no memory.
class MappedFile {
 public:
  // Throws Error when the file is missing, unreadable, or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid while this object lives; moving it does not invalidate the span.
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A part of a mapped file that is read once. The constructor asks the system to read ahead. The
// destructor lets the pages go, so that they no longer count as this process's memory; the system
// reads them again if they are needed later.
class ReadOnce {
 public:
  ReadOnce() = default;
  // REQUIRES: `mapped` is part of a MappedFile that outlives this object.
  explicit ReadOnce(std::span<const std::byte> mapped);
  ReadOnce(ReadOnce&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
  ReadOnce& operator=(ReadOnce&& other) noexcept {
    std::swap(pages_, other.pages_);
    return *this;
  }
  ~ReadOnce();

 private:
  std::span<std::byte> pages_;  // whole pages only
};

// The whole file as a string, as JSON parsers need it. Errors as above.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace specdec

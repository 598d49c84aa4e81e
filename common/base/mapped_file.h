#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace specdec {

// A whole file mapped into memory, read-only; unmapped on destruction. Pages are read from disk
// when they are first touched, so that opening a file of gigabytes costs no memory.
class MappedFile {
 public:
  // Throws Error when the file is missing, unreadable, or no regular file.
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

// The whole file as a string: for JSON, whose parsers want it in one piece. Errors as above.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace specdec

#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace specdec {

// A file that appears whole or not at all: written beside its place and renamed by commit().
// Destroyed without commit(), it leaves nothing behind.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);  // Error when it cannot be created
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);  // Error when the disk is full, ...
  void write(std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail_write() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

}  // namespace specdec

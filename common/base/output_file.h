#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace specdec {

// A file that appears whole or not at all: written beside its place and renamed by commit().
// Destroyed without commit(), it leaves nothing behind. A link stays, and what it leads to is
// replaced. What is no regular file (a device, a pipe, /dev/stdout) is written to where it is.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);  // Error when it cannot be created
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);  // Error when the disk is full, ...
  void write(std::string_view text);
  void commit();

  // Throws Error where such a file could not be created, so that nobody works for hours first.
  // Opens no device and no pipe.
  static void require_writable(const std::filesystem::path& path);

 private:
  [[noreturn]] void fail_write() const;
  void give_up();

  std::filesystem::path path_;       // as the caller has it
  std::filesystem::path place_;      // where the links end
  std::filesystem::path temporary_;  // empty: written in place
  int fd_ = -1;
  int partial_ = -1;  // the place of temporary_ among the files that signals remove
};

// Removes what all files of this process have written so far and not committed. Safe in a signal's
// handler.
void remove_partial_files();

}  // namespace specdec

#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace specdec {

// A file that appears whole or not at all: it is written beside its place, and commit() renames it.
// If it is destroyed without commit(), no file is left. A link stays, and the file that it leads to
// is replaced. A device, a pipe or /dev/stdout is written directly.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);  // Error when it cannot be created
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);  // Error when the disk is full, ...
  void write(std::string_view text);
  void commit();

  // Throws Error if such a file could not be created, so that a long run fails at its start and not
  // at its end. Opens no device and no pipe.
  static void require_writable(const std::filesystem::path& path);

 private:
  [[noreturn]] void fail_write() const;
  void give_up();

  std::filesystem::path path_;       // as given
  std::filesystem::path place_;      // where the links end
  std::filesystem::path temporary_;  // empty: written in place
  int fd_ = -1;
  int partial_ = -1;  // the index of temporary_ among the files that a signal removes
};

// Removes all files that this process has begun and not committed. Safe in a signal handler.
void remove_partial_files();

// Writes a whole text file.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace specdec

#include "common/base/output_file.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as in the kernel

struct Destination {
  fs::path place;         // where the links end; the file need not exist yet
  bool in_place = false;  // a device, a pipe, or a descriptor of ours, such as /dev/stdout
};

Destination destination_of(const fs::path& path) {
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  Destination result{path, there && !S_ISREG(status.st_mode)};
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(result.place)); ++i) {
    const fs::path folder = result.place.parent_path();
    // Whoever opened the descriptor owns its file, so we do not replace it.
    if (fs::weakly_canonical(folder).string().starts_with("/proc/")) result.in_place = true;
    result.place = folder / fs::read_symlink(result.place);  // an absolute one takes over
  }
  return result;
}

fs::path temporary_beside(const fs::path& place) {
  fs::path temporary = place;
  temporary += fmt::format(".{}.partial", ::getpid());
  return temporary;
}

[[noreturn]] void fail_at(const fs::path& path) {
  fail("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

void refuse_directory(const fs::path& path) {
  if (fs::is_directory(path)) fail("{}: is a directory; a file name is needed", path.string());
}

// The files that a signal removes. A name is added before its file exists, and removed after it.
std::array<std::atomic<char*>, 16> partial_files;

int note_partial(const fs::path& path) {
  char* name = ::strdup(path.c_str());
  for (std::size_t i = 0; i < partial_files.size(); ++i) {
    char* none = nullptr;
    if (partial_files[i].compare_exchange_strong(none, name)) return i;
  }
  std::free(name);  // too many files at once: a signal will not remove this one
  return -1;
}

void forget_partial(int place) {
  if (place >= 0) std::free(partial_files[place].exchange(nullptr));
}

}  // namespace

OutputFile::OutputFile(fs::path path) : path_(std::move(path)) {
  refuse_directory(path_);
  Destination destination = destination_of(path_);
  if (destination.in_place) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    if (fd_ < 0) fail_write();
    return;
  }
  place_ = std::move(destination.place);
  temporary_ = temporary_beside(place_);
  partial_ = note_partial(temporary_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    forget_partial(partial_);
    fail_write();
  }
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  give_up();
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write();
    bytes = bytes.subspan(written);
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::commit() {
  const int fd = std::exchange(fd_, -1);
  const bool renamed =
      ::close(fd) == 0 && (temporary_.empty() || ::rename(temporary_.c_str(), place_.c_str()) == 0);
  if (!renamed) {
    const int error = errno;
    give_up();
    errno = error;
    fail_write();
  }
  forget_partial(std::exchange(partial_, -1));
}

void OutputFile::require_writable(const fs::path& path) {
  refuse_directory(path);
  if (!destination_of(path).in_place) {
    const OutputFile created_and_removed(path);
  } else if (::access(path.c_str(), W_OK) != 0) {
    fail_at(path);
  }
}

void OutputFile::give_up() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  forget_partial(std::exchange(partial_, -1));
}

void OutputFile::fail_write() const { fail_at(path_); }

void remove_partial_files() {
  for (const std::atomic<char*>& name : partial_files) {
    if (const char* path = name.load()) ::unlink(path);
  }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace specdec

#include "common/base/output_file.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "common/base/error.h"

namespace specdec {

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (std::filesystem::is_directory(path_)) {
    fail("{}: is a directory; a file name is needed", path_.string());
  }
  temporary_ = path_;
  temporary_ += fmt::format(".{}.partial", ::getpid());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_write();
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::commit() {
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail_write();
  }
}

void OutputFile::fail_write() const {
  fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace specdec

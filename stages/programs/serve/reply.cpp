#include "stages/programs/serve/reply.h"

#include <microhttpd.h>

namespace specdec {

void Reply::add_headers(const HttpHeaders& headers) {
  const std::lock_guard lock(mutex_);
  headers_.insert(headers_.end(), headers.begin(), headers.end());
}

void Reply::answer(HttpAnswer answer) {
  const std::lock_guard lock(mutex_);
  head_ = std::move(answer);
  ended_ = true;
  wake();
}

void Reply::begin(HttpAnswer head) {
  const std::lock_guard lock(mutex_);
  unread_ = std::exchange(head.body, {});
  head_ = std::move(head);
  streams_ = true;
  wake();
}

void Reply::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (connection_ == nullptr || cut_) return;
  if (unread_.size() - read_ + piece.size() > most_unread_) {
    cut_off();
    return;
  }
  unread_.erase(0, std::exchange(read_, 0));
  unread_ += piece;
  wake();
}

void Reply::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wake();
}

bool Reply::is_gone() const {
  const std::lock_guard lock(mutex_);
  return connection_ == nullptr || cut_;
}

bool Reply::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

void Reply::cut_off() {
  cut_ = true;
  unread_.clear();
  read_ = 0;
  wake();
}

void Reply::wake() {
  if (!suspended_) return;
  suspended_ = false;
  MHD_resume_connection(connection_);
}

}  // namespace specdec

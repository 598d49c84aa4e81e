#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct MHD_Connection;  // of libmicrohttpd

namespace specdec {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  HttpHeaders headers = {};
};

// The answer to one HTTP request. Any thread may give it, at any time; no call waits. A reader that
// does not keep up is cut off when more than `most_unread` bytes of a stream wait for it.
//
// Any thread may call the public functions.
class Reply {
 public:
  explicit Reply(std::size_t most_unread) : most_unread_(most_unread) {}

  // Headers of the answer, whatever it will be. REQUIRES: it has not been given.
  void add_headers(const HttpHeaders& headers);

  void answer(HttpAnswer answer);  // all at once
  // A stream: its status and headers, then its body in pieces, then its end.
  void begin(HttpAnswer head);
  void write(std::string_view piece);
  void end();
  // Whether its reader has closed the connection, or was cut off. Then nothing needs an answer.
  bool is_gone() const;
  bool streams() const;  // whether it has begun as a stream

 private:
  friend class Exchange;

  void wake();  // REQUIRES: the mutex is locked
  void cut_off();

  const std::size_t most_unread_;
  mutable std::mutex mutex_;              // of all members below
  MHD_Connection* connection_ = nullptr;  // null: gone
  bool suspended_ = false;                // the connection waits for this object
  HttpHeaders headers_;                   // of add_headers()
  std::optional<HttpAnswer> head_;        // of a stream, without its body
  bool streams_ = false, ended_ = false, cut_ = false;
  std::string unread_;    // of a stream
  std::size_t read_ = 0;  // bytes of unread_ that its reader has got
};

}  // namespace specdec

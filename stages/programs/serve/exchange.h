#pragma once
#include <chrono>
#include <memory>
#include <optional>

#include <microhttpd.h>

#include "stages/programs/serve/http_server.h"

namespace specdec {

// One request of a connection and its answer, as libmicrohttpd goes through them. It belongs to the
// server's thread; the Reply is what it shares with others.
class Exchange {
 public:
  using Clock = std::chrono::steady_clock;

  Exchange(MHD_Connection* connection, const char* method, const char* url,
           const HttpLimits& limits);
  // The connection is closed, or ready for its next request.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // libmicrohttpd's next step: more of the body, or its end, or a wake-up by the reply.
  MHD_Result go_on(const char* data, std::size_t* size, const HttpHandler& handler);

  bool is_hopeless() const;  // its body will be so large that it is refused before it arrives
  bool is_complete() const { return dispatched_; }  // all of the request has arrived
  bool is_waiting() const;                          // for its answer, or for more of it
  bool is_done() const;  // all of the answer is there; some of it may not be sent yet
  void cut_off();        // closes the connection instead of an answer

  std::optional<Clock::time_point> done_since = {};  // of a sweep that found it done

 private:
  MHD_Result take(const char* data, std::size_t& size);
  void dispatch(const HttpHandler& handler);
  std::optional<HttpAnswer> take_answer();
  MHD_Result queue_answer();
  static ssize_t read_stream(void* exchange, std::uint64_t position, char* to, std::size_t most);

  MHD_Connection* connection_;
  const HttpLimits& limits_;
  HttpRequest request_;
  std::shared_ptr<Reply> reply_;
  std::size_t discarded_ = 0;  // bytes of a body that is too large
  bool too_large_ = false, dispatched_ = false;
};

}  // namespace specdec

#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "stages/programs/serve/listen.h"
#include "stages/programs/serve/reply.h"

namespace specdec {

struct HttpRequest {
  std::string method, path, body;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  // "" if there is none. A header that comes twice has both values, with a comma between.
  std::string_view header(std::string_view name) const;
};

// What one client may take from the others.
struct HttpLimits {
  int connections = 256, connections_per_address = 128;
  std::size_t headers = 32 << 10;  // bytes of a request's headers
  std::size_t body = 1 << 20;      // bytes of a request's body
  std::size_t unread = 256 << 10;  // bytes of a stream that wait for its reader
  double seconds = 30;             // to send a request, or to go on reading
};

// Called on the server's thread. It answers, or keeps the reply for a thread that will. An
// exception becomes an answer with status 500.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<Reply>&)>;

class HttpServer {
 public:
  // Answers requests from now on, on one thread of its own. It takes over the listener's socket.
  HttpServer(const Listener& listener, const HttpLimits& limits, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void handle_by(HttpHandler handler);  // from the next request on
  // Waits, at most a second, until answers that have ended are sent; then closes all connections.
  // No handler is called afterwards.
  void close();

 private:
  class Loop;

  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace specdec

#include "stages/programs/serve/http_server.h"

#include <atomic>
#include <chrono>
#include <list>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "stages/programs/serve/exchange.h"

namespace specdec {
namespace {

bool has_unread(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

// The server's thread: libmicrohttpd's loop, and a look at what that library does not watch. A
// connection that waits for its answer is suspended: it takes no thread, and is not polled.
class HttpServer::Loop {
 public:
  Loop(const Listener& listener, const HttpLimits& limits, HttpHandler handler);
  ~Loop() { MHD_stop_daemon(daemon_); }

  void run();
  void stop() { stopping_ = true; }
  void handle_by(HttpHandler handler);

 private:
  using Clock = Exchange::Clock;

  struct Peer {
    int socket = -1;
    std::unique_ptr<Exchange> exchange = {};  // none: between two requests, or in its headers
    Clock::time_point since = Clock::now();   // when its client began to send a request
  };

  static void on_connection(void* loop, MHD_Connection* connection, void** peer,
                            MHD_ConnectionNotificationCode what);
  static MHD_Result on_request(void* loop, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* data,
                               std::size_t* size, void** exchange);
  static void on_end(void* loop, MHD_Connection* connection, void** exchange,
                     MHD_RequestTerminationCode why);
  static Peer& peer_of(MHD_Connection* connection);

  HttpHandler handler() const;
  void look_after_peers();
  void drop_those_who_left();
  void drop_slow(Peer& peer, Clock::time_point now) const;
  bool is_drained() const;

  const HttpLimits limits_;
  mutable std::mutex mutex_;  // of handler_
  HttpHandler handler_;
  MHD_Daemon* daemon_;
  std::list<Peer> peers_;  // the loop's own thread reads and writes them
  std::vector<pollfd> waiting_;
  Clock::time_point looked_ = Clock::now();
  std::atomic<bool> stopping_ = false;
};

HttpServer::Loop::Loop(const Listener& listener, const HttpLimits& limits, HttpHandler handler)
    : limits_(limits), handler_(std::move(handler)) {
  const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
  daemon_ =
      MHD_start_daemon(flags, 0, nullptr, nullptr, on_request, this,                             //
                       MHD_OPTION_LISTEN_SOCKET, listener.socket,                                //
                       MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(limits_.connections),  //
                       MHD_OPTION_PER_IP_CONNECTION_LIMIT,                                       //
                       static_cast<unsigned>(limits_.connections_per_address),                   //
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits_.headers,                      //
                       MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned>(limits_.seconds),    //
                       MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,                                     //
                       MHD_OPTION_NOTIFY_CONNECTION, on_connection, this,                        //
                       MHD_OPTION_NOTIFY_COMPLETED, on_end, this, MHD_OPTION_END);
  if (daemon_ == nullptr) fail("the HTTP server cannot be started: too few files or memory");
}

void HttpServer::Loop::handle_by(HttpHandler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

HttpHandler HttpServer::Loop::handler() const {
  const std::lock_guard lock(mutex_);
  return handler_;
}

void HttpServer::Loop::run() {
  constexpr int kMilliseconds = 10;
  constexpr auto kLongestGoodbye = std::chrono::seconds(1);
  while (!stopping_) {
    MHD_run_wait(daemon_, kMilliseconds);
    look_after_peers();
  }
  ::close(MHD_quiesce_daemon(daemon_));  // the listener
  const auto until = Clock::now() + kLongestGoodbye;
  while (!is_drained() && Clock::now() < until) MHD_run_wait(daemon_, kMilliseconds);
  for (Peer& peer : peers_) {
    if (peer.exchange) peer.exchange->cut_off();
  }
  MHD_run_wait(daemon_, 0);
}

bool HttpServer::Loop::is_drained() const {
  for (const Peer& peer : peers_) {
    if (peer.exchange && peer.exchange->is_done()) return false;
  }
  return true;
}

void HttpServer::Loop::look_after_peers() {
  constexpr auto kEvery = std::chrono::milliseconds(10);
  const auto now = Clock::now();
  if (now - looked_ < kEvery) return;
  looked_ = now;
  drop_those_who_left();
  for (Peer& peer : peers_) drop_slow(peer, now);
}

// A client that closes its side before its request is complete, or while it waits for the answer,
// does not want the answer any more. libmicrohttpd may not look at such a connection again.
void HttpServer::Loop::drop_those_who_left() {
  waiting_.clear();
  for (const Peer& peer : peers_) {
    const Exchange* exchange = peer.exchange.get();
    const bool is_answered = exchange && exchange->is_complete() && !exchange->is_waiting();
    waiting_.push_back({is_answered ? -1 : peer.socket, POLLRDHUP, 0});
  }
  if (waiting_.empty() || ::poll(waiting_.data(), waiting_.size(), 0) <= 0) return;
  auto polled = waiting_.begin();
  for (Peer& peer : peers_) {
    if ((polled++)->revents == 0) continue;
    if (peer.exchange && peer.exchange->is_waiting()) {
      peer.exchange->cut_off();
    } else if (!has_unread(peer.socket)) {
      ::shutdown(peer.socket, SHUT_RDWR);
    }
  }
}

// libmicrohttpd's timeout begins anew with every byte. This one does not.
void HttpServer::Loop::drop_slow(Peer& peer, Clock::time_point now) const {
  const auto limit = std::chrono::duration<double>(limits_.seconds);
  if (peer.exchange && peer.exchange->is_done()) {
    if (!peer.exchange->done_since) peer.exchange->done_since = now;
    if (now - *peer.exchange->done_since > limit) ::shutdown(peer.socket, SHUT_RDWR);
  } else if (!peer.exchange || !peer.exchange->is_complete()) {
    if (now - peer.since > limit) ::shutdown(peer.socket, SHUT_RDWR);
  }
}

HttpServer::Loop::Peer& HttpServer::Loop::peer_of(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return *static_cast<Peer*>(info->socket_context);
}

void HttpServer::Loop::on_connection(void* loop, MHD_Connection* connection, void** peer,
                                     MHD_ConnectionNotificationCode what) {
  auto& peers = static_cast<Loop*>(loop)->peers_;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    // The system would keep megabytes for a client that does not read.
    constexpr int kSendBuffer = 64 << 10;
    ::setsockopt(info->connect_fd, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    *peer = &peers.emplace_back(Peer{.socket = info->connect_fd});
  } else {
    std::erase_if(peers, [&](const Peer& other) { return &other == *peer; });
  }
}

MHD_Result HttpServer::Loop::on_request(void* loop, MHD_Connection* connection, const char* url,
                                        const char* method, const char*, const char* data,
                                        std::size_t* size, void** exchange) {
  Loop& self = *static_cast<Loop*>(loop);
  if (*exchange == nullptr) {  // the headers are there
    Peer& peer = peer_of(connection);
    peer.exchange = std::make_unique<Exchange>(connection, method, url, self.limits_);
    *exchange = peer.exchange.get();
    if (!peer.exchange->is_hopeless()) return MHD_YES;
  }
  return static_cast<Exchange*>(*exchange)->go_on(data, size, self.handler());
}

void HttpServer::Loop::on_end(void*, MHD_Connection* connection, void** exchange,
                              MHD_RequestTerminationCode) {
  if (*exchange == nullptr) return;
  Peer& peer = peer_of(connection);
  peer.exchange.reset();
  peer.since = Clock::now();
  *exchange = nullptr;
}

HttpServer::HttpServer(const Listener& listener, const HttpLimits& limits, HttpHandler handler)
    : loop_(std::make_unique<Loop>(listener, limits, std::move(handler))),
      thread_([this] { loop_->run(); }) {}

HttpServer::~HttpServer() { close(); }

void HttpServer::close() {
  loop_->stop();
  if (thread_.joinable()) thread_.join();
}

void HttpServer::handle_by(HttpHandler handler) { loop_->handle_by(std::move(handler)); }

}  // namespace specdec

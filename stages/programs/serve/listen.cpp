#include "stages/programs/serve/listen.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

constexpr int kBacklog = 128;

struct HostAndPort {
  std::string host, port;
};

[[noreturn]] void fail_unreadable(const std::string& address) {
  fail(
      "--serve {}: an address is HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080; port 0 is any "
      "free one",
      in_quotes(address));
}

HostAndPort split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  HostAndPort parts{colon == std::string::npos ? "" : address.substr(0, colon),
                    address.substr(colon + 1)};
  if (parts.host.starts_with('[') && parts.host.ends_with(']')) {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  } else if (parts.host.find(':') != std::string::npos) {
    fail_unreadable(address);  // an IPv6 address without brackets
  }
  if (parts.host.empty()) parts.host = "127.0.0.1";
  const bool digits = parts.port.find_first_not_of("0123456789") == std::string::npos;
  if (parts.port.empty() || parts.port.size() > 5 || !digits || std::stoi(parts.port) > 0xffff) {
    fail_unreadable(address);
  }
  return parts;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

// The address and the port that a socket got, as the URL of its root.
std::string url_of(int socket, bool& loopback) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  auto& address = reinterpret_cast<sockaddr&>(bound);
  ::getsockname(socket, &address, &size);
  loopback = is_loopback(address);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  ::getnameinfo(&address, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  const bool v6 = address.sa_family == AF_INET6;
  return fmt::format("http://{}{}{}:{}/", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

[[noreturn]] void fail_to_listen(const std::string& address, int error) {
  const std::string advice = error == EADDRINUSE ? "; choose another port, or 0 for any free one"
                             : error == EACCES   ? "; choose a port from 1024 on"
                             : error == EADDRNOTAVAIL
                                 ? "; 127.0.0.1 is this machine for itself, 0.0.0.0 for all"
                                 : "";
  fail("--serve {}: cannot listen there: {}{}", address,
       std::error_code(error, std::generic_category()).message(), advice);
}

// A listening socket, or -1 and errno.
int listen_at(const addrinfo& place) {
  const int socket = ::socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool listens =
      ::bind(socket, place.ai_addr, place.ai_addrlen) == 0 && ::listen(socket, kBacklog) == 0;
  if (listens) return socket;
  const int error = errno;
  ::close(socket);
  errno = error;
  return -1;
}

}  // namespace

std::string host_of(const std::string& address) { return split(address).host; }

Listener listen_at(const std::string& address) {
  const auto [host, port] = split(address);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int why = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); why != 0) {
    fail("--serve {}: no such host: {}", in_quotes(address), ::gai_strerror(why));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  Listener listener;
  int error = 0;
  for (; found != nullptr && listener.socket < 0; found = found->ai_next) {
    listener.socket = listen_at(*found);
    error = errno;
  }
  if (listener.socket < 0) fail_to_listen(address, error);
  listener.url = url_of(listener.socket, listener.is_loopback);
  return listener;
}

}  // namespace specdec

#pragma once
#include <string>

namespace specdec {

// A socket that listens for connections. The caller closes it.
struct Listener {
  int socket = -1;
  std::string url = {};      // with the port that was bound: "http://127.0.0.1:8080/"
  bool is_loopback = false;  // only this machine's programs reach it
};

// The HOST of --serve HOST:PORT. A PORT alone means this machine's own address, 127.0.0.1.
std::string host_of(const std::string& address);

// Listens at the address of --serve. Port 0 takes any free one. Throws Error, saying what to do, if
// the text is no address, the host is not this machine's, or the port is taken or not permitted.
Listener listen_at(const std::string& address);

}  // namespace specdec

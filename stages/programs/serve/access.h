#pragma once
#include <string>

#include "stages/programs/serve/http_server.h"

namespace specdec {

// Who may ask: clients with the key, if there is one, and no pages of other sites. A page whose
// name suddenly leads to this machine (DNS rebinding) has that name in its Host header; a page that
// sends a form or a script's request has its site in Origin.
class AccessRules {
 public:
  // host: that of --serve. key: empty: none. origin: the site whose pages may ask; empty: none,
  // "*": all.
  AccessRules(std::string host, std::string key, std::string origin)
      : host_(std::move(host)), key_(std::move(key)), origin_(std::move(origin)) {}

  // Throws Refusal: 403 for another Host or Origin, 401 for the key.
  void check_site(const HttpRequest& request) const;
  void check_key(const HttpRequest& request) const;

  // What the pages of the allowed site need to read an answer; empty for others.
  HttpHeaders cors(const HttpRequest& request) const;

 private:
  bool allows(std::string_view origin) const;

  std::string host_, key_, origin_;
};

// The key in a file: its text without white space around it. Throws Error if there is none, or if
// it has characters that a header cannot carry.
std::string read_api_key(const std::string& path);

}  // namespace specdec

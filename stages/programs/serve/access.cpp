#include "stages/programs/serve/access.h"

#include <algorithm>

#include <arpa/inet.h>

#include "common/base/error.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"
#include "stages/programs/serve/refusal.h"

namespace specdec {
namespace {

// The host of "host:port" or "[::1]:port".
std::string_view without_port(std::string_view text) {
  return text.starts_with('[') ? text.substr(1, text.find(']') - 1)
                               : text.substr(0, text.find(':'));
}

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_number(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address) == 1;
}

// Takes the same time wherever the texts differ.
bool equal_keys(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); i++) {
    different |= static_cast<unsigned>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  }
  return different == 0;
}

}  // namespace

void AccessRules::check_site(const HttpRequest& request) const {
  const std::string_view host = request.header("host"), origin = request.header("origin");
  const std::string name = in_lower_case(without_port(host));
  if (host.empty()) throw Refusal(400, "the request has no Host header");
  if (!is_number(name) && name != "localhost" && name != in_lower_case(host_)) {
    throw Refusal(403, fmt::format("this server is not called {}; use its address, or start it "
                                   "with --serve NAME:PORT",
                                   in_quotes(name)));
  }
  const bool own = origin == fmt::format("http://{}", host);
  if (!origin.empty() && !own && !allows(origin)) {
    throw Refusal(403, fmt::format("pages of {} may not use this server, unless it is started with "
                                   "--allow-origin and their site",
                                   in_quotes(origin)));
  }
}

void AccessRules::check_key(const HttpRequest& request) const {
  if (key_.empty()) return;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given = request.header("authorization");
  const bool right = given.starts_with(kScheme) && equal_keys(given.substr(kScheme.size()), key_);
  if (right) return;
  throw Refusal(
      401,
      given.empty() ? "this server wants its key: Authorization: Bearer KEY" : "the key is wrong",
      "", "invalid_api_key");
}

bool AccessRules::allows(std::string_view origin) const {
  return !origin_.empty() && (origin_ == "*" || origin == origin_);
}

HttpHeaders AccessRules::cors(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !allows(origin)) return {};
  return {{"Access-Control-Allow-Origin", origin_},
          {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
          {"Access-Control-Allow-Headers", "*, Authorization, Content-Type"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
          {"Vary", "Origin"}};
}

std::string read_api_key(const std::string& path) {
  const std::string text = read_text_file(path);
  const std::string key(trim_like_python(text));
  if (key.empty()) fail("{}: there is no key in it", path);
  if (!std::ranges::all_of(key, [](unsigned char c) { return c > 0x20 && c < 0x7f; })) {
    fail("{}: a key is one word of ASCII characters", path);
  }
  return key;
}

}  // namespace specdec

#include "stages/programs/serve/refusal.h"

namespace specdec {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
    case 405:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

Json error_json(const Refusal& refusal) {
  return {{"error",
           {{"message", refusal.what()},
            {"type", type_of(refusal.status)},
            {"param", text_or_null(refusal.param)},
            {"code", text_or_null(refusal.code)}}}};
}

HttpAnswer to_answer(const Refusal& refusal) {
  HttpAnswer answer{.status = refusal.status, .body = error_json(refusal).dump() + "\n"};
  if (refusal.status == 429 || refusal.status == 503) answer.headers = {{"Retry-After", "1"}};
  if (refusal.status == 401) answer.headers = {{"WWW-Authenticate", "Bearer"}};
  return answer;
}

}  // namespace specdec

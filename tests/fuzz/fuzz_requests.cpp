// Any bytes as a file of requests: an Error of one line, or requests within their ranges.
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/error.h"
#include "stages/programs/batch/request_list.h"
#include "stages/programs/sampling/speculation_options.h"

using namespace specdec;

namespace {

void check_request(const RunOptions& o) {
  SPECDEC_CHECK(o.arrival >= 0 && std::isfinite(o.arrival), "a time");
  SPECDEC_CHECK(o.has_prompt + o.has_chat + !o.prompt_ids.empty() == 1, "one prompt");
  SPECDEC_CHECK(kNewTokens.has(o.max_new_tokens) && kSpecLengths.has(o.spec_length),
                "a number in range");
  SPECDEC_CHECK(o.max_context == 0 || kContextSizes.has(o.max_context), "a number in range");
  check_speculation_options(speculation_options(o));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<RunOptions> requests;
  try {
    requests = parse_requests(text, "requests.jsonl", {});
  } catch (const Error& error) {
    SPECDEC_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
    return 0;
  }
  std::set<std::string> ids;
  for (const RunOptions& request : requests) {
    check_request(request);
    SPECDEC_CHECK(ids.insert(request.id).second, "ids that differ");
  }
  return 0;
}

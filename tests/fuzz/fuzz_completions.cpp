// Any bytes as the body of a request to the server, of both kinds, and as its headers: a Refusal
// that tells the client what is wrong with its request, or a request within its ranges.
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/json_value.h"
#include "common/base/utf8.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/serve/access.h"
#include "stages/programs/serve/completion_request.h"
#include "stages/programs/serve/refusal.h"

using namespace specdec;

namespace {

const ModelFiles& embedded() {
  static const ModelFiles files = open_model(RunOptions().target);
  return files;
}

const CompletionReader& reader() {
  static const CompletionReader reader = [] {
    RunOptions options;
    options.stage = 6;
    options.max_context = embedded().checkpoint.config().max_seq_len;
    return CompletionReader(
        options, embedded(), "model",
        [](const ModelFiles& files, const RunOptions& o) { return to_batch_request(files, o); });
  }();
  return reader;
}

void check_refusal(const Refusal& refusal, bool of_body) {
  const std::string_view message = refusal.what();
  SPECDEC_CHECK(!message.empty() && message.find('\n') == message.npos, "one line");
  SPECDEC_CHECK(!find_invalid_utf8(message) && !find_invalid_utf8(refusal.param), "a text");
  SPECDEC_CHECK(of_body ? refusal.status == 400 || refusal.status == 404
                        : refusal.status == 400 || refusal.status == 401 || refusal.status == 403,
                "a status that clients do not try again");
  SPECDEC_CHECK(!to_answer(refusal).body.empty(), "an answer");
}

void check_body(std::string_view text, bool is_chat) {
  try {
    const BatchRequest request = reader().read(text, is_chat).batch;
    const GenerationRequest& generation = request.generation;
    SPECDEC_CHECK(!generation.prompt.empty() && generation.max_new_tokens >= 1, "something to do");
    SPECDEC_CHECK(std::int64_t(generation.prompt.size()) + generation.max_new_tokens <=
                      embedded().checkpoint.config().max_seq_len,
                  "room for it");
    check_speculation_options(request.speculation);
  } catch (const Refusal& refusal) {
    check_refusal(refusal, true);
  }
}

// Each line as the value of a header.
void check_headers(std::string_view text) {
  const AccessRules rules("127.0.0.1", "key", "https://example.org");
  for (const char* name : {"host", "origin", "authorization"}) {
    HttpRequest request;
    request.headers[name] = text.substr(0, text.find('\n'));
    try {
      rules.check_site(request);
      rules.cors(request);
      rules.check_key(request);
    } catch (const Refusal& refusal) {
      check_refusal(refusal, false);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_body(text, false);
  check_body(text, true);
  check_headers(text);
  return 0;
}

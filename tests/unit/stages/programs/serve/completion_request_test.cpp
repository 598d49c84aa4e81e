// The bodies of the protocol's requests.
#include "stages/programs/serve/completion_request.h"

#include "common/embedded_models.h"
#include "stages/programs/serve/refusal.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CompletionRequestTest : public ::testing::Test {
 protected:
  static const ModelFiles& target() {
    static const ModelFiles files = open_model(embedded_target().string());
    return files;
  }
  static CompletionReader reader(int stage = kFirstBatchStage, int max_context = 0) {
    RunOptions usual;
    usual.stage = stage;
    usual.max_context = max_context;
    return CompletionReader(std::move(usual), target(), "small", to_batch_request);
  }
  static CompletionRequest read(const std::string& fields, bool is_chat = false) {
    const std::string prompt =
        is_chat ? R"("messages": [{"role": "user", "content": "Hi"}])" : R"("prompt": "Once")";
    return reader().read("{" + prompt + (fields.empty() ? "}" : ", " + fields + "}"), is_chat);
  }
  // "400 top_p: its message", "" where nothing is refused.
  static std::string refusal(const std::string& body, bool is_chat = false) {
    try {
      reader().read(body, is_chat);
    } catch (const Refusal& r) {
      return fmt::format("{} {}: {}", r.status, r.param, r.what());
    }
    return "";
  }
  static std::string field_refusal(const std::string& fields, bool is_chat = false) {
    const std::string prompt =
        is_chat ? R"("messages": [{"role": "user", "content": "Hi"}])" : R"("prompt": "Once")";
    return refusal("{" + prompt + ", " + fields + "}", is_chat);
  }
};

TEST_F(CompletionRequestTest, HasTheOptionsOfARequestLine) {
  const CompletionRequest request =
      read(R"("model": "small", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 3,)"
           R"( "stop": ["x", "yz"], "seed": 18446744073709551615, "spec_length": 3,)"
           R"( "acceptance": "coupled", "stream": true, "stream_options": {"include_usage": true},)"
           R"( "rounds": true, "logprobs": 2, "user": "u", "unheard_of": {"a": [1]})");
  EXPECT_TRUE(request.stream && request.include_usage && request.rounds && !request.is_chat);
  EXPECT_EQ(request.logprobs, 2);
  const BatchRequest& batch = request.batch;
  EXPECT_EQ(batch.generation.max_new_tokens, 7);
  EXPECT_THAT(batch.generation.stop, ElementsAre("x", "yz"));
  EXPECT_EQ(batch.speculation.sampling.temperature, 0.5);
  EXPECT_EQ(batch.speculation.sampling.top_p, 0.9);
  EXPECT_EQ(batch.speculation.sampling.top_k, 3);
  EXPECT_EQ(batch.speculation.rule->name, "coupled");
  EXPECT_EQ(batch.seed, 18446744073709551615u);
  EXPECT_EQ(batch.spec_length, 3);
  EXPECT_EQ(read(R"("max_completion_tokens": 5)").batch.generation.max_new_tokens, 5);
  EXPECT_EQ(read(R"("stop": "x")").batch.generation.stop.size(), 1u);
  EXPECT_TRUE(read(R"("no_speculation": true)").batch.spec_length == 0);
}

TEST_F(CompletionRequestTest, LeavesOutWhatTheServerKnows) {
  const CompletionRequest request = read("");
  EXPECT_FALSE(request.stream || request.include_usage || request.rounds || request.logprobs);
  EXPECT_EQ(request.batch.generation.max_new_tokens, 128);
  EXPECT_NE(request.batch.seed, read("").batch.seed) << "a new one each time";
  EXPECT_EQ(read(R"("temperature": null, "n": null, "tools": null)").batch.spec_length, 5);
  // As many tokens as fit, unless the client asks for a number.
  const CompletionReader small = reader(kFirstBatchStage, 20);
  const auto& generation = small.read(R"({"prompt": [3840, 71, 9]})", false).batch.generation;
  EXPECT_EQ(generation.max_new_tokens, 17);
  EXPECT_EQ(generation.max_context, 20);
}

TEST_F(CompletionRequestTest, TakesEveryFormOfPrompt) {
  const auto prompt = [](const std::string& body) {
    return reader().read(body, false).batch.generation.prompt;
  };
  const auto text = prompt(R"({"prompt": "Once"})");
  EXPECT_EQ(prompt(R"({"prompt": ["Once"]})"), text);
  EXPECT_EQ(prompt(R"({"prompt": [3840, 71]})"), (std::vector<TokenId>{3840, 71}));
  EXPECT_EQ(prompt(R"({"prompt": [[3840, 71]]})"), (std::vector<TokenId>{3840, 71}));
  const auto chat = [](const std::string& messages) {
    return reader().read("{\"messages\": " + messages + "}", true).batch;
  };
  const BatchRequest plain = chat(
      R"([{"role": "system", "content": "Be."}, {"role": "user", "content": "Hello", "name": "x"}])");
  EXPECT_TRUE(plain.is_chat);
  EXPECT_EQ(chat(R"([{"role": "developer", "content": "Be."}, {"role": "user", "content":)"
                 R"( [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}])")
                .generation.prompt,
            plain.generation.prompt);
}

TEST_F(CompletionRequestTest, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> kWrong[] = {
      {R"("temperature": -1)", "400 temperature: the request: temperature is -1; it takes"},
      {R"("max_tokens": 0)", "400 max_tokens: the request: max_tokens is 0; it takes"},
      {R"("max_tokens": 9999)", "400 max_tokens: a prompt of 2 tokens"},
      {R"("n": 2)", "400 n: n is 2, which this server does not support"},
      {R"("frequency_penalty": 0.1)", "400 frequency_penalty: frequency_penalty is 0.1"},
      {R"("presence_penalty": -2)", "400 presence_penalty: "},
      {R"("logit_bias": {"5": 1})", "400 logit_bias: "},
      {R"("suffix": "x")", "400 suffix: "},
      {R"("echo": true)", "400 echo: "},
      {R"("best_of": 2)", "400 best_of: "},
      {R"("logprobs": 21)", "400 logprobs: logprobs is 21; it takes"},
      {R"("stream": 1)", "400 stream: "},
      {R"("stream_options": {})", "400 stream_options: stream_options goes with stream"},
      {R"("stop": [""])", "400 stop: "},
      {R"("stop": ["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"])",
       "400 stop: stop takes at most 16 texts"},
      {R"("acceptance": "nix")", "400 acceptance: acceptance nix: there is no such rule"},
      {R"("model": "large")", "404 model: there is no model \"large\" here"},
      {R"("model": 3)", "400 model: "},
      {R"("prompt_ids": [1])", "400 prompt_ids: "},
      {R"("device": "cuda")", "400 device: device belongs to the whole server"},
      {R"("requests": "/etc/passwd")", "400 requests: "},
      {R"("trace": "/tmp/x")", "400 trace: "},
      {R"("chat_file": "x")", "400 chat_file: "},
      {R"("tree": "best:4")", "400 tree: "},
  };
  for (const auto& [fields, words] : kWrong) {
    EXPECT_THAT(field_refusal(fields), HasSubstr(words)) << fields;
  }
  for (const char* fields :
       {R"("tools": [{}])", R"("tool_choice": "required")", R"("functions": [{}])",
        R"("logprobs": false, "top_logprobs": 1)", R"("response_format": {"type": "json_object"})",
        R"("top_logprobs": 1)", R"("logprobs": true, "top_logprobs": 21)",
        R"("modalities": ["text", "audio"])"}) {
    EXPECT_THAT(field_refusal(fields, true), HasSubstr("400 ")) << fields;
  }
}

TEST_F(CompletionRequestTest, NamesTheFieldThatSaysHowManyLogprobs) {
  EXPECT_THAT(field_refusal(R"("logprobs": true, "top_logprobs": 21)", true),
              HasSubstr("400 top_logprobs: top_logprobs is 21; it takes"));
  EXPECT_THAT(field_refusal(R"("top_logprobs": 1)", true), HasSubstr("400 top_logprobs: "));
  EXPECT_THAT(field_refusal(R"("logprobs": 2, "top_logprobs": 1)"), HasSubstr("400 top_log"));
}

TEST_F(CompletionRequestTest, TakesValuesThatChangeNothing) {
  EXPECT_THAT(
      field_refusal(R"("n": 1, "best_of": 1, "echo": false, "suffix": "", "logit_bias": {},)"
                    R"( "frequency_penalty": 0.0, "presence_penalty": 0)"),
      IsEmpty());
  EXPECT_THAT(field_refusal(R"("tools": [], "tool_choice": "auto", "modalities": ["text"],)"
                            R"( "response_format": {"type": "text"}, "logprobs": false)",
                            true),
              IsEmpty());
  EXPECT_EQ(read(R"("logprobs": true, "top_logprobs": 4)", true).logprobs, 4);
  EXPECT_EQ(read(R"("logprobs": true)", true).logprobs, 0);
}

TEST_F(CompletionRequestTest, RefusesBodiesThatAreNoRequests) {
  for (const char* body :
       {"", "{", "[]", "3", "\"x\"", "{\"prompt\": \"a\"} x", "{\"prompt\": \"\xff\"}",
        R"({"prompt": "a", "prompt": "b"})", R"({"prompt": "a", "top_k": 1e999})"}) {
    EXPECT_THAT(refusal(body), HasSubstr("400 : ")) << body;
  }
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("nested"));
  for (const char* body : {"{}", R"({"prompt": ""})", R"({"prompt": ["a", "b"]})",
                           R"({"prompt": []})", R"({"prompt": [1, "a"]})", R"({"prompt": 3})",
                           R"({"prompt": [99999]})", R"({"messages": []})"}) {
    EXPECT_THAT(refusal(body), HasSubstr("400 prompt: ")) << body;
  }
  for (const char* messages :
       {"[]", "3", "[3]", "[{}]", R"([{"role": "user"}])", R"([{"role": "tool", "content": "x"}])",
        R"([{"role": "user", "content": null}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}])"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"messages\": {}}}", messages), true),
                HasSubstr("400 messages: "))
        << messages;
  }
}

TEST_F(CompletionRequestTest, SaysHowToFitInTheClientsOwnWords) {
  EXPECT_THAT(field_refusal(R"("max_tokens": 99999)"),
              ::testing::EndsWith(": reduce max_tokens or shorten the prompt"));
  EXPECT_THAT(field_refusal(R"("max_completion_tokens": 99999)", true),
              HasSubstr("400 max_completion_tokens: a prompt"));
  std::string ids = "1";
  for (int i = 0; i < 5000; i++) ids += ", 1";
  EXPECT_THAT(refusal(R"({"prompt": [)" + ids + "]}"),
              ::testing::EndsWith(" positions; the model has 2048: shorten the prompt"));
}

TEST_F(CompletionRequestTest, ListsTheOptionsOfRequests) {
  EXPECT_THAT(reader().options(), ::testing::Contains("spec_length"));
  EXPECT_THAT(reader(kFirstTreeStage).options(), Not(::testing::Contains("spec_length")));
  EXPECT_THAT(reader().options(), Not(::testing::Contains("device")));
}

}  // namespace
}  // namespace specdec

// The small parts of the server: who may ask, what it counts, and what it shows of a round.
#include <cmath>
#include <numeric>

#include "common/embedded_models.h"
#include "stages/programs/serve/access.h"
#include "stages/programs/serve/answers.h"
#include "stages/programs/serve/listen.h"
#include "stages/programs/serve/metrics.h"
#include "stages/programs/serve/refusal.h"
#include "stages/programs/serve/server_view.h"
#include "stages/programs/serve/shown_round.h"
#include "stages/programs/serve/token_logprobs.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Tokenizer& tokenizer() {
  static const Tokenizer embedded = Tokenizer::load(embedded_target() / "tokenizer.json");
  return embedded;
}

HttpRequest request_with(std::map<std::string, std::string, std::less<>> headers) {
  return {.method = "GET", .path = "/", .body = {}, .headers = std::move(headers)};
}

template <typename Check>
int status_of(const Check& check) {
  try {
    check();
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
  return 200;
}

TEST(AccessTest, KeepsOtherSitesOut) {
  const AccessRules rules("laptop", "", "https://lab.example");
  const auto site = [&](const char* host, const char* origin) {
    return status_of([&] {
      rules.check_site(request_with(
          *origin == '\0' ? decltype(HttpRequest::headers){{"host", host}}
                          : decltype(HttpRequest::headers){{"host", host}, {"origin", origin}}));
    });
  };
  for (const char* host :
       {"127.0.0.1:8080", "10.0.0.7", "[::1]:8080", "localhost:1", "laptop:8080"}) {
    EXPECT_EQ(site(host, ""), 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example",
                           "laptop.x", "[evil", "127.0.0.1, evil.example"}) {
    EXPECT_EQ(site(host, ""), 403) << host;
  }
  EXPECT_EQ(site("localhost:8080", "http://localhost:8080"), 200) << "its own page";
  EXPECT_EQ(site("localhost:8080", "https://lab.example"), 200);
  for (const char* origin : {"http://localhost:9", "null", "https://lab.example.evil", "x"}) {
    EXPECT_EQ(site("localhost:8080", origin), 403) << origin;
  }
  EXPECT_EQ(rules.cors(request_with({{"origin", "https://lab.example"}})).front().second,
            "https://lab.example");
  EXPECT_THAT(rules.cors(request_with({{"origin", "http://localhost"}})), IsEmpty());
}

TEST(AccessTest, AsksForTheKey) {
  const AccessRules rules("", "secret", "");
  const auto key = [&](const char* value) {
    return status_of([&] { rules.check_key(request_with({{"authorization", value}})); });
  };
  EXPECT_EQ(key("Bearer secret"), 200);
  for (const char* wrong :
       {"", "secret", "Bearer ", "Bearer secre", "Bearer secrett", "Basic secret"}) {
    EXPECT_EQ(key(wrong), 401) << wrong;
  }
  const TemporaryDirectory folder;
  EXPECT_EQ(read_api_key(folder.write("key", " abc\n")), "abc");
  EXPECT_ERROR(read_api_key(folder.write("empty", "\n")), "there is no key in it");
  EXPECT_ERROR(read_api_key(folder.write("two", "a\nb")), "one word");
}

TEST(ListenTest, RefusesWhatIsNoAddress) {
  EXPECT_EQ(host_of("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(host_of("[::1]:80"), "::1");
  EXPECT_EQ(host_of("8080"), "127.0.0.1");
  for (const char* wrong : {"", "localhost", "localhost:", "localhost:x", "localhost:65536",
                            "::1:80", "localhost:-1", "a:123456"}) {
    EXPECT_ERROR(host_of(wrong), "an address is HOST:PORT") << wrong;
  }
}

TEST(RefusalTest, IsTheProtocolsErrorObject) {
  const HttpAnswer answer = to_answer(Refusal(429, "full", "", "busy"));
  EXPECT_EQ(answer.body,
            R"({"error":{"code":"busy","message":"full","param":null,"type":"rate_limit_error"}})"
            "\n");
  EXPECT_EQ(answer.headers.front().first, "Retry-After");
}

TEST(MetricsTest, CountsValuesUpToEachBound) {
  constexpr double kBounds[] = {1, 2.5};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 2.0, 7.0, std::nan("")}) histogram.add(value);
  EXPECT_EQ(histogram.to_text("h", "m=\"x\""),
            "h_bucket{m=\"x\",le=\"1\"} 2\n"
            "h_bucket{m=\"x\",le=\"2.5\"} 3\n"
            "h_bucket{m=\"x\",le=\"+Inf\"} 4\n"
            "h_sum{m=\"x\"} 10.5\n"
            "h_count{m=\"x\"} 4\n");
}

TEST(MetricsTest, CountsRoundsByPosition) {
  Metrics metrics;
  StepReport step;
  step.parts = {{.id = 0,
                 .rows = 4,
                 .round = {.drafted = 3, .accepted = 2, .end = RoundEnd::kRejected},
                 .emitted = 3},
                {.id = 1, .rows = 1, .round = {.drafted = 0}, .emitted = 1},
                {.id = 2, .prefilled = 5, .rows = 5}};
  metrics.count(step);
  EXPECT_EQ(metrics.tokens, 4);
  EXPECT_THAT(metrics.to_text("a\"b"),
              AllOf(HasSubstr("specdec:spec_decode_num_drafts_total{model_name=\"a\\\"b\"} 1\n"),
                    HasSubstr("num_draft_tokens_total{model_name=\"a\\\"b\"} 3\n"),
                    HasSubstr("num_accepted_tokens_total{model_name=\"a\\\"b\"} 2\n"),
                    HasSubstr("per_pos_total{model_name=\"a\\\"b\",position=\"1\"} 1\n"),
                    Not(HasSubstr("position=\"2\""))));
}

TEST(ServerViewTest, KnowsCostsFromStepsOfOneRequest) {
  CostWatch costs(2);
  const auto step = [](int drafted, double draft, double verify) {
    StepReport report{.started = 1, .drafted = 1 + draft, .verified = 1 + draft + verify};
    report.parts = {{.round = {.drafted = drafted}}};
    return report;
  };
  EXPECT_TRUE(std::isnan(costs.c()));
  costs.add(step(0, 0, 2));
  costs.add(step(2, 1, 3));
  costs.add(step(1, 9, 9));  // another K
  StepReport batch = step(2, 9, 9);
  batch.parts.push_back({});
  costs.add(batch);
  EXPECT_DOUBLE_EQ(costs.c(), 0.25);
  EXPECT_DOUBLE_EQ(costs.v(), 1.5);
}

TEST(ServerViewTest, ForgetsOldTokensInItsRate) {
  RateWatch rate;
  EXPECT_EQ(rate.per_second(0), 0);
  rate.add(10, 30);
  rate.add(10.05, 30);
  EXPECT_DOUBLE_EQ(rate.per_second(11), 20);
  EXPECT_EQ(rate.per_second(14), 0);
}

TEST(ShownRoundTest, ShowsVerdictsAndKinds) {
  const auto shown = [](const Round& round, std::vector<TokenId> drafted,
                        std::vector<TokenId> emitted) {
    Drafts drafts(4, 0);
    for (const TokenId token : drafted) drafts.add_certain(token);
    const Json json = shown_round(round, drafts, emitted, false, tokenizer());
    std::string text;
    for (const Json& draft : json["drafts"]) {
      text += fmt::format("{}{} ", draft["verdict"].get<std::string>(), draft["parent"].get<int>());
    }
    text += "|";
    for (const Json& token : json["tokens"]) text += " " + token["kind"].get<std::string>();
    return text + (json["last"].is_null() ? " -" : " " + json["last"]["kind"].get<std::string>());
  };
  EXPECT_EQ(shown({.drafted = 3, .accepted = 1, .end = RoundEnd::kRejected}, {5, 6, 7}, {5, 9}),
            "accepted-1 rejected0 not tested1 | accepted correction correction");
  EXPECT_EQ(shown({.drafted = 1, .accepted = 1}, {5}, {5, 9}), "accepted-1 | accepted bonus bonus");
  EXPECT_EQ(shown({}, {}, {9}), "| plain plain");
  EXPECT_EQ(shown({.drafted = 2, .accepted = 1, .end = RoundEnd::kStopped}, {5, 6}, {5}),
            "accepted-1 not tested0 | accepted -");
}

TEST(TokenLogprobsTest, AreOfTheSoftmaxWithoutPadding) {
  const int V = 8, limit = 6;
  std::vector<float> logits(2 * V, 0);
  logits[3] = 2;        // of the first row
  logits[limit] = 100;  // no token
  logits[V + 1] = logits[V + 4] = 1;
  const std::vector<TokenId> tokens = {3, 4};
  const Json chat = token_logprobs(tokens, logits, limit, 2, true, tokenizer())["content"];
  EXPECT_NEAR(chat[0]["logprob"].get<double>(), 2 - std::log(5 + std::exp(2.0)), 1e-12);
  EXPECT_NEAR(chat[1]["logprob"].get<double>(), 1 - std::log(4 + 2 * std::exp(1.0)), 1e-12);
  EXPECT_EQ(chat[1]["top_logprobs"].size(), 2u);
  EXPECT_EQ(chat[1]["top_logprobs"][0]["token"], chat[1]["top_logprobs"][0]["token"]);
  EXPECT_EQ(chat[1]["top_logprobs"][0]["token"], Json(tokenizer().decoded_bytes(1, false)))
      << "the lowest id among equals";
  const Json plain = token_logprobs(tokens, logits, limit, 1, false, tokenizer());
  EXPECT_EQ(plain["token_logprobs"][0], chat[0]["logprob"]);
  EXPECT_EQ(plain["top_logprobs"].size(), 2u);
}

TEST(AnswersTest, HaveNoErrorAndOneChoice) {
  const AnswerHead head{.id = "a", .model = "m", .created = 7, .is_chat = true};
  EXPECT_EQ(
      to_event(text_chunk(head, "x\xff\n")),
      "data: {\"choices\":[{\"delta\":{\"content\":\"x\xEF\xBF\xBD\\n\"},\"finish_reason\":null,"
      "\"index\":0,\"logprobs\":null}],\"created\":7,\"id\":\"a\",\"model\":\"m\",\"object\":"
      "\"chat.completion.chunk\"}\n\n");
  EXPECT_EQ(last_chunk(head, FinishReason::kLength)["choices"][0]["finish_reason"], Json("length"));
  RequestResult result;
  result.prompt_tokens = 3;
  result.tokens = {1, 2};
  const Json usage = usage_chunk(head, result, 5);
  EXPECT_EQ(usage["choices"].size(), 0u);
  EXPECT_EQ(usage["usage"]["total_tokens"], 5);
  EXPECT_EQ(usage["speculation"]["seed"], 5);
}

}  // namespace
}  // namespace specdec

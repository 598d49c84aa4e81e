// Requests made up.
#include "stages/programs/batch/workload.h"

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "common/base/mapped_file.h"
#include "common/embedded_models.h"
#include "stages/programs/batch/queue_inbox.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;

const ModelFiles& target() {
  static const ModelFiles files = open_model(embedded_target().string());
  return files;
}

std::vector<RunOptions> make(const std::string& spec, const RunOptions& defaults = {}) {
  return make_workload(spec, defaults, target());
}

std::string spec_refusal(const std::string& spec) {
  return error_message([&] { make(spec); });
}

// Without the bytes of a character that the cut goes through.
std::string prompt_text(const RunOptions& request) {
  std::string text = target().tokenizer->decode(request.prompt_ids, false);
  while (text.ends_with("\xEF\xBF\xBD")) text.resize(text.size() - 3);
  return text;
}

// The two ends of what a function of the requests gives.
template <typename Function>
std::pair<int, int> range_of(const std::vector<RunOptions>& requests, Function&& function) {
  std::set<int> values;
  for (const RunOptions& request : requests) values.insert(static_cast<int>(function(request)));
  return {*values.begin(), *values.rbegin()};
}

const auto kPromptTokens = [](const RunOptions& r) { return r.prompt_ids.size(); };
const auto kNewTokensAsked = [](const RunOptions& r) { return r.max_new_tokens; };

// A checksum of all that the requests are. The number below was made on x86-64 with g++; it has to
// be the same everywhere.
std::uint64_t fingerprint(const std::vector<RunOptions>& requests) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by whole numbers
  const auto add = [&](auto number) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001b3;
  };
  for (const RunOptions& request : requests) {
    add(std::llround(request.arrival * 1e9));
    add(request.max_new_tokens);
    add(request.seed);
    add(std::llround(request.sampling.temperature * 1000));
    for (const TokenId id : request.prompt_ids) add(id);
  }
  return hash;
}

TEST(WorkloadTest, TheSameEverywhere) {
  const std::string spec = "poisson:rate=20,n=32,sampled=0.5";
  EXPECT_EQ(fingerprint(make(spec)), fingerprint(make(spec)));
  EXPECT_EQ(fingerprint(make(spec)), 5101039961827817314u);
  EXPECT_NE(fingerprint(make(spec)), fingerprint(make(spec + ",seed=2")));
  EXPECT_EQ(fingerprint(make(spec)), fingerprint(make(spec + ",seed=1")));
}

TEST(WorkloadTest, RequestsAreNumberedAndKeepTheOptions) {
  RunOptions defaults;
  defaults.seed = ~std::uint64_t{0} - 1;
  defaults.sampling = {.temperature = 0.3, .top_k = 7};
  defaults.stop = {"end"};
  const auto requests = make("poisson:rate=5,n=9", defaults);
  ASSERT_EQ(requests.size(), 9u);
  for (std::size_t i = 0; i < requests.size(); i++) {
    const RunOptions& o = requests[i];
    EXPECT_EQ(requests[i].id, std::to_string(i));
    EXPECT_EQ(o.seed, defaults.seed + i) << "each its own, modulo 2^64";
    EXPECT_EQ(o.sampling.temperature, 0.3);
    EXPECT_EQ(o.sampling.top_k, 7);
    EXPECT_EQ(o.stop, defaults.stop);
    EXPECT_GE(requests[i].arrival, i > 0 ? requests[i - 1].arrival : 0);
  }
}

// Whether gaps look like independent exponential ones of mean 1 / rate: their sum has mean n / rate
// and standard deviation sqrt(n) / rate; exp(-1) of them are longer than the mean and exp(-3) than
// three times the mean, binomially. Five standard deviations three times: a false alarm in 580,000
// seeds.
bool look_exponential(std::span<const double> gaps, double rate) {
  const auto n = static_cast<double>(gaps.size());
  const double sum = std::accumulate(gaps.begin(), gaps.end(), 0.0);
  bool good = std::abs(sum * rate - n) <= 5 * std::sqrt(n);
  for (const double means : {1, 3}) {
    const double share = std::exp(-means);
    const auto longer = std::ranges::count_if(gaps, [&](double gap) { return gap * rate > means; });
    good = good && std::abs(static_cast<double>(longer) - n * share) <=
                       5 * std::sqrt(n * share * (1 - share));
  }
  return good;
}

TEST(WorkloadTest, ArrivalsAreAPoissonProcess) {
  const auto requests = make("poisson:rate=20,n=10000,max_prompt=20");
  std::vector<double> gaps;
  for (std::size_t i = 0; i < requests.size(); i++) {
    gaps.push_back(requests[i].arrival - (i > 0 ? requests[i - 1].arrival : 0));
  }
  EXPECT_TRUE(look_exponential(gaps, 20));
  EXPECT_FALSE(look_exponential(gaps, 22)) << "control: 10 per cent faster";
  const std::vector<double> equal(10'000, 1.0 / 20);
  EXPECT_FALSE(look_exponential(equal, 20)) << "control";
  std::vector<double> uniform;
  for (int i = 0; i < 10'000; i++) uniform.push_back((i + 0.5) / 10'000 / 10);
  EXPECT_FALSE(look_exponential(uniform, 20)) << "control";
}

TEST(WorkloadTest, AnInfiniteRateIsAllAtOnce) {
  for (const RunOptions& request : make("poisson:rate=inf,n=20")) EXPECT_EQ(request.arrival, 0);
}

TEST(WorkloadTest, LengthsAreUniformBetweenTheirLimits) {
  using Range = std::pair<int, int>;
  const auto requests =
      make("poisson:rate=20,n=2000,min_new_tokens=3,max_new_tokens=12,min_prompt=5,max_prompt=14");
  EXPECT_EQ(range_of(requests, kNewTokensAsked), Range(3, 12));
  EXPECT_EQ(range_of(requests, kPromptTokens), Range(5, 14));
  // 200 of each length; binomial, standard deviation sqrt(180). Five of them for 20 numbers: a
  // false alarm in 87,000 seeds.
  std::map<int, int> new_tokens, prompts;
  for (const RunOptions& request : requests) {
    new_tokens[request.max_new_tokens]++;
    prompts[static_cast<int>(request.prompt_ids.size())]++;
  }
  for (const auto& counts : {new_tokens, prompts}) {
    for (const auto& [length, count] : counts) {
      EXPECT_NEAR(count, 200, 5 * std::sqrt(180.0)) << length;
    }
  }
}

TEST(WorkloadTest, LengthsHaveDefaults) {
  using Range = std::pair<int, int>;
  RunOptions defaults;
  defaults.max_new_tokens = 40;
  EXPECT_EQ(range_of(make("poisson:rate=20,n=2000", defaults), kNewTokensAsked), Range(10, 40));
  EXPECT_EQ(range_of(make("poisson:rate=20,n=2000"), kPromptTokens), Range(16, 192));
  EXPECT_EQ(range_of(make("poisson:rate=20,n=400,max_prompt=4"), kPromptTokens), Range(4, 4));
  EXPECT_EQ(range_of(make("poisson:rate=20,n=400,max_new_tokens=8"), kNewTokensAsked), Range(2, 8));
  defaults.max_new_tokens = 1;
  EXPECT_EQ(range_of(make("poisson:rate=20,n=9", defaults), kNewTokensAsked), Range(1, 1));
}

TEST(WorkloadTest, PromptsAreBeginningsOfFewDocuments) {
  const std::string text = read_text_file(embedded_draft_text());
  for (const int n : {1, 4, 5, 32, 200}) {
    const auto requests = make(fmt::format("poisson:rate=20,n={},min_prompt=40", n));
    std::set<std::string> beginnings;  // of 40 tokens: chats begin alike, but not so long
    for (const RunOptions& request : requests) {
      const std::string prompt = prompt_text(request);
      EXPECT_TRUE(prompt.starts_with("<|begin_of_text|>"));
      EXPECT_NE(text.find(prompt), std::string::npos) << prompt;
      EXPECT_THAT(prompt, ::testing::Not(HasSubstr("<|end_of_text|>")));
      std::vector<TokenId> beginning = request.prompt_ids;
      beginning.resize(40);
      beginnings.insert(target().tokenizer->decode(beginning, false));
    }
    EXPECT_LE(std::ssize(beginnings), (n + 3) / 4);
    EXPECT_GE(std::ssize(beginnings), n < 32 ? 1 : n / 6) << "and not of fewer";
  }
}

// A document is never given whole, so that there is something to go on with.
TEST(WorkloadTest, AtLeastOneTokenOfADocumentIsLeft) {
  const std::string text = read_text_file(embedded_draft_text());
  int long_ones = 0;
  for (const RunOptions& request : make("poisson:rate=20,n=2000,max_prompt=4000")) {
    const std::string prompt = prompt_text(request);
    const std::size_t end = text.find(prompt) + prompt.size();
    ASSERT_LT(end, text.size());
    EXPECT_NE(text.substr(end, 17), "<|end_of_text|><|");
    EXPECT_NE(text.substr(end, 17), "<|begin_of_text|>");
    long_ones += kPromptTokens(request) > 192;
  }
  EXPECT_GT(long_ones, 200) << "otherwise this proves little";
}

TEST(WorkloadTest, KindsChooseDocuments) {
  const auto begins = [](const RunOptions& request, std::string_view words) {
    return prompt_text(request).starts_with("<|begin_of_text|>" + std::string(words));
  };
  const auto is_code = [&](const RunOptions& r) {
    return begins(r, "def ") || begins(r, "class ");
  };
  const auto is_chat = [&](const RunOptions& r) { return begins(r, "<|start_header_id|>"); };
  std::set<std::string> kinds;
  for (const RunOptions& r : make("poisson:rate=20,n=60,kinds=code")) EXPECT_TRUE(is_code(r));
  for (const RunOptions& r : make("poisson:rate=20,n=60,kinds=chat")) EXPECT_TRUE(is_chat(r));
  for (const RunOptions& r : make("poisson:rate=20,n=60,kinds=text")) {
    EXPECT_FALSE(is_code(r) || is_chat(r));
  }
  for (const RunOptions& r : make("poisson:rate=20,n=200,kinds=code+chat")) {
    EXPECT_TRUE(is_code(r) || is_chat(r));
    kinds.insert(is_code(r) ? "code" : "chat");
  }
  EXPECT_EQ(kinds.size(), 2u);
}

TEST(WorkloadTest, AShareOfTheRequestsIsSampled) {
  const auto sampled = [](const std::string& share) {
    const auto requests = make("poisson:rate=20,n=40,sampled=" + share);
    return std::ranges::count_if(requests, [](const RunOptions& request) {
      EXPECT_TRUE(request.sampling.temperature == 0.8 || request.sampling.temperature == 0);
      return request.sampling.temperature == 0.8;
    });
  };
  EXPECT_EQ(sampled("0"), 0);
  EXPECT_EQ(sampled("0.25"), 10);
  EXPECT_EQ(sampled("0.5"), 20);
  EXPECT_EQ(sampled("1"), 40);
}

TEST(WorkloadTest, TheDefaultWorkloadAndItsRequestsAreGood) {
  const auto requests = make(std::string(kDefaultWorkload));
  EXPECT_EQ(requests.size(), 16u);
  for (const RunOptions& request : requests) {
    const BatchRequest batch = to_batch_request(target(), request);
    EXPECT_EQ(batch.generation.prompt, request.prompt_ids);
    EXPECT_EQ(batch.seed, request.seed);
  }
}

TEST(WorkloadBadInputTest, EachMistakeHasItsMessage) {
  const std::string form =
      "; write it like poisson:rate=20,n=16; the keys are rate, n, seed, "
      "min_new_tokens, max_new_tokens, min_prompt, max_prompt, sampled, kinds";
  EXPECT_EQ(spec_refusal("uniform:n=3"),
            "--workload: \"uniform:n=3\" does not begin with poisson:" + form);
  EXPECT_EQ(spec_refusal(""), "--workload: \"\" does not begin with poisson:" + form);
  EXPECT_EQ(spec_refusal("poisson:"), "--workload: there is no key \"\"" + form);
  EXPECT_EQ(spec_refusal("poisson:rate=1,n=2,"), "--workload: there is no key \"\"" + form);
  EXPECT_EQ(spec_refusal("poisson:rate=1,m=2"), "--workload: there is no key \"m\"" + form);
  EXPECT_EQ(spec_refusal("poisson:rate=1,n"), "--workload: n has no value" + form);
  EXPECT_EQ(spec_refusal("poisson:rate=1,n=2,n=3"), "--workload: n occurs twice" + form);
  EXPECT_EQ(spec_refusal("poisson:n=2"), "--workload: rate is missing" + form);
  EXPECT_EQ(spec_refusal("poisson:rate=2"), "--workload: n is missing" + form);
}

TEST(WorkloadBadInputTest, NumbersHaveRanges) {
  const std::pair<const char*, const char*> cases[] = {
      {"rate=0", "rate is \"0\"; it takes a number from 0.001 to inf"},
      {"rate=nan", "rate is \"nan\""},
      {"rate=-1", "rate is \"-1\""},
      {"rate=2x", "rate is \"2x\""},
      {"rate=", "rate is \"\""},
      {"n=0", "n is \"0\"; it takes a number from 1 to 100000"},
      {"n=100001", "n is \"100001\""},
      {"n=2.5", "n is \"2.5\""},
      {"seed=-1", "seed is \"-1\"; it takes a number from 0 to 18446744073709551615"},
      {"min_new_tokens=0", "min_new_tokens is \"0\"; it takes a number from 1 to 1073741824"},
      {"max_new_tokens=0", "max_new_tokens is \"0\""},
      {"min_prompt=0", "min_prompt is \"0\""},
      {"max_prompt=many", "max_prompt is \"many\""},
      {"sampled=1.5", "sampled is \"1.5\"; it takes a number from 0 to 1"},
      {"sampled=-0.1", "sampled is \"-0.1\""},
      {"kinds=", "there is no kind \"\"; there are chat, code, text"},
      {"kinds=chat+prose", "there is no kind \"prose\""},
  };
  for (const auto& [item, message] : cases) {
    EXPECT_THAT(spec_refusal(fmt::format("poisson:{}", item)), HasSubstr(message));
  }
  EXPECT_EQ(spec_refusal("poisson:rate=1,n=2,min_prompt=30,max_prompt=20"),
            "--workload: min_prompt is 30, but max_prompt is only 20");
  EXPECT_EQ(spec_refusal("poisson:rate=1,n=2,min_new_tokens=200"),
            "--workload: min_new_tokens is 200, but max_new_tokens is only 128");
  EXPECT_THAT(spec_refusal("poisson:rate=1,n=2,min_prompt=100000,max_prompt=100000"),
              HasSubstr("has no document of more than 100000 tokens; reduce min_prompt"));
}

TEST(WorkloadBadInputTest, ATokenizerIsNeeded) {
  ModelFiles files{.checkpoint = Checkpoint(embedded_target().string())};
  EXPECT_ERROR(make_workload("poisson:rate=1,n=2", {}, files), "no tokenizer.json");
}

}  // namespace
}  // namespace specdec

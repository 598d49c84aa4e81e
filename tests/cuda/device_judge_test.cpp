// Rounds judged side by side on the device, one of which cannot be judged: each comes to what its
// request's own judge makes of it on the host. Drafts in a row are judged as chains and as trees.
#include "stages/programs/sampling/device_judge.h"

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda_backend.h"
#include "stages/08_token_trees/tree_round.h"

namespace specdec {
namespace {

constexpr int V = 24, K = 3, kRequests = 3, kBroken = 1;

// A request with a round to judge. Drafts are drawn from even distributions.
struct Request {
  Request(Backend& backend, const Judging& judging, int number, int broken_row, bool on_device)
      : drafts(K, V, on_device ? &backend : nullptr),
        logits(backend, std::size_t{K + 1} * V),
        dice(std::uint64_t(number) + 3),
        judge(judging.make_judge(backend, dice,
                                 {.sampling = {.temperature = 1}, .draft_temperature = 1},
                                 std::make_shared<JudgingScratch>(K, V))),
        context{5, TokenId(number)},
        generation(request(), nullptr) {
    for (int i = 0; i < K; i++) {
      std::ranges::fill(drafts.next_probs(), 1.0 / V);
      drafts.add_drawn((5 * number + 7 * i) % V);
    }
    std::vector<float> rows(logits.size());
    for (std::size_t i = 0; i < rows.size(); i++) {
      rows[i] = std::sin(float(i * 7 + std::size_t(number) * 31)) / 2;
      if (number == kBroken && int(i) / V == broken_row) rows[i] = NAN;
    }
    backend.upload(rows.data(), logits.data(), rows.size() * sizeof(float));
    round = {.start = 1, .drafted = K};
  }
  static const GenerationRequest& request() {
    static const GenerationRequest request{.prompt = {5}, .max_new_tokens = 20};
    return request;
  }
  RoundToJudge to_judge() {
    return {*judge, drafts, {logits.data(), K + 1, V}, context, generation, round, failure};
  }

  Drafts drafts;
  DeviceArray<float> logits;
  Dice dice;
  std::unique_ptr<Judge> judge;
  std::vector<TokenId> context;
  Generation generation;
  Round round;
  std::optional<std::string> failure;
};

std::vector<std::unique_ptr<Request>> judged(Backend& backend, const Judging& judging,
                                             int broken_row, DeviceJudge* device) {
  std::vector<std::unique_ptr<Request>> requests;
  std::vector<RoundToJudge> rounds;
  for (int i = 0; i < kRequests; i++) {
    requests.push_back(
        std::make_unique<Request>(backend, judging, i, broken_row, device != nullptr));
    rounds.push_back(requests.back()->to_judge());
  }
  if (device != nullptr) {
    device->judge(rounds);
  } else {
    judge_each(rounds);
  }
  return requests;
}

// What is expected for rules of chains (null) or trees.
void expect_as_on_the_host(const NamedSiblingRule* rule, int broken_row) {
  const auto backend = make_emulated_backend();
  const Judging judging = rule ? judging_of_trees(*rule) : Judging{};
  Capacity capacity = Capacity::of_chain(K);
  capacity.requests = kRequests;
  capacity.context = 8;
  DeviceJudge device(*backend, judging_room(capacity, V), Overlaps::kCounted,
                     rule ? rule->on_device : std::nullopt);
  const auto on_device = judged(*backend, judging, broken_row, &device);
  const auto on_host = judged(*backend, judging, broken_row, nullptr);
  for (int i = 0; i < kRequests; i++) {
    SCOPED_TRACE(i);
    const Request &got = *on_device[std::size_t(i)], &want = *on_host[std::size_t(i)];
    EXPECT_EQ(got.failure.has_value(), want.failure.has_value());
    EXPECT_EQ(got.context, want.context);
    EXPECT_EQ(got.round.accepted, want.round.accepted);
    EXPECT_EQ(got.round.end, want.round.end);
    EXPECT_EQ(got.round.path, want.round.path);
    EXPECT_EQ(got.round.tested_at, want.round.tested_at);
    EXPECT_NEAR(got.round.sum_acceptance_prob, want.round.sum_acceptance_prob, 1e-12);
    EXPECT_TRUE(i == kBroken || !got.failure);
  }
  EXPECT_TRUE(on_device[kBroken]->failure || broken_row > 0);
}

TEST(DeviceJudgeTest, ABrokenRoundOfAChainEndsNoOther) {
  for (const int broken_row : {0, 1, 2}) expect_as_on_the_host(nullptr, broken_row);
}

TEST(DeviceJudgeTest, ABrokenRoundOfATreeEndsNoOther) {
  for (const int broken_row : {0, 1, 2}) {
    expect_as_on_the_host(&find_sibling_rule("rejection"), broken_row);
  }
}

}  // namespace
}  // namespace specdec

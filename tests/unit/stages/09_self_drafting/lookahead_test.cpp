// Look-ahead tokens: what they say, and that the target forgets them.
#include <fstream>

#include "common/checkpoint/safetensors_writer.h"
#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/self_drafting.h"

namespace specdec::batch {
namespace {

// The embeddings of these tokens, as a look-ahead file would have them.
std::vector<float> embeddings_of(const LlamaModel& model, const std::vector<TokenId>& tokens) {
  Backend& backend = model.backend();
  const DeviceArray<std::int32_t> ids(backend, tokens.size());
  backend.upload(tokens.data(), ids.data(), tokens.size() * sizeof(TokenId));
  const int n = static_cast<int>(tokens.size()), E = model.config().d_model;
  const DeviceArray<float> rows(backend, std::size_t(n * E));
  backend.embed(model.embedding(), ids.data(), matrix(rows, n, E));
  return to_host(backend, matrix(rows, n, E));
}

DraftRequest request_of(SequenceId sequence, SequenceId target, std::span<const TokenId> context,
                        int K) {
  return {sequence, context, K, {}, nullptr, target};
}

// Look-ahead tokens with the embeddings of ordinary tokens say what these tokens say, bit for bit:
// so they have the right positions, see the right context, and each its own request.
TEST(Lookahead, EachSaysWhatComesAfterIt) {
  const std::vector<TokenId> tokens = random_tokens(3, 4000, 1);
  for (const int page_size : {kNoPages, 1, 3}) {
    for (const int max_pass_rows : {2, 256}) {
      Engine engine("draft", make_cpu_backend(2), page_size, {.max_pass_rows = max_pass_rows});
      Llama& llama = *engine.llama;
      LookaheadModel model(engine.model, embeddings_of(engine.model, tokens), 3);
      model.read(llama);
      const std::vector<TokenId> texts[] = {random_tokens(1, 4000, 2), random_tokens(20, 4000, 3),
                                            random_tokens(9, 4000, 4)};
      const int K[] = {4, 1, 3};
      std::vector<DraftRequest> requests;
      for (int i = 0; i < 3; i++) {
        const SequenceId target = llama.create();
        const auto cached = std::span(texts[i]).first(texts[i].size() - 1);
        if (!cached.empty()) llama.forward(Segment{target, cached, 0}, {});
        requests.push_back(request_of(model.create(), target, texts[i], K[i]));
      }
      model.begin(requests);
      for (int i = 0; i < 3; i++) {
        std::vector<TokenId> drafted = texts[i], said = texts[i];
        drafted.resize(drafted.size() + std::size_t(K[i] - 1));  // any drafts
        said.insert(said.end(), tokens.begin(), tokens.begin() + K[i] - 1);
        const LogitsBuffer logits(model, K[i]);
        model.forward(Segment{requests[std::size_t(i)].sequence, drafted, K[i]},
                      logits.rows(0, K[i]));
        EXPECT_EQ(llama.length(requests[std::size_t(i)].target_sequence), texts[i].size() - 1u);
        const SequenceId plain = llama.create();
        EXPECT_EQ(host_rows(*engine.backend, logits.rows(0, K[i])),
                  engine.forward(plain, said, K[i]));
        llama.release(plain);
      }
    }
  }
}

// Outside of a round's beginning, their ids are not tokens. That holds after a failure, too.
TEST(Lookahead, AreNoTokensOfTheTarget) {
  CachedLlama cached(self_target(), 3, 6);
  Llama& llama = cached.llama;
  const SequenceId target = llama.create();
  const std::vector<TokenId> text = {5, 6, 7, 8}, no_token = {llama.vocab_size()};
  llama.forward(Segment{target, std::span(text).first(3), 0}, {});
  LookaheadModel model(self_target(), embeddings_of(self_target(), {1, 2, 3}), 1);
  model.read(llama);
  const DraftRequest fits = request_of(model.create(), target, text, 3);
  const DraftRequest too_long = request_of(fits.sequence, target, text, 4);
  EXPECT_THROW(model.begin(std::span(&too_long, 1)), CacheFull);
  EXPECT_EQ(llama.length(target), 3);
  EXPECT_ERROR(llama.forward(Segment{target, no_token, 0}, {}), "outside the vocabulary");
  model.begin(std::span(&fits, 1));
  EXPECT_EQ(llama.length(target), 3);
  EXPECT_ERROR(llama.forward(Segment{target, no_token, 0}, {}), "outside the vocabulary");
}

class LookaheadRounds : public ::testing::TestWithParam<std::string_view> {
 protected:
  const TreeKind kind_ = kind_of(GetParam());
  std::mt19937 random_{9};

  BatchRequest request() {
    BatchRequest r = random_request(random_, excerpt(random_, 12), kind_.room().levels);
    r.spec_length = kind_.room().levels;
    r.context_limit = kPositions;
    r.speculation.lenience = 1;
    r.speculation.draft_temperature = r.speculation.sampling.temperature;
    return r;
  }
};

// After every round, the target's cache is that of a fresh prefill. A round costs two passes.
TEST_P(LookaheadRounds, LeaveNothingInTheCache) {
  for (const int page_size : {kNoPages, 1, 3, 16}) {
    const BatchRequest r = request();
    SelfDrafting self("lookahead", kind_, 1, page_size, 0);
    DraftAndVerify steps =
        tree_steps(self.target(), self.drafter(), r.spec_length, r.context_limit);
    Dice dice(r.seed);
    SamplingTreeJudge judge(
        self.target().backend(), dice, r.speculation, *kind_.rule,
        std::make_shared<JudgingScratch>(kind_.room().verified, self.target().vocab_size()));
    const Outcome outcome = run_alone(steps, r, nullptr, [&](auto& context, auto& generation) {
      const Round round = tree_round(steps, judge, context, generation);
      expect_fresh(self_target(), *self.llama, steps.sequence(), context);
      return round;
    });
    const auto rounds = std::ssize(outcome.rounds);
    EXPECT_EQ(self.drafter().forwards(), rounds);
    const int prefills = r.generation.prompt.size() > 1 ? 1 : 0;
    EXPECT_EQ(self.llama->llama.counters().forwards, prefills + 2 * rounds);
  }
}

// The first draft is drawn from the very distribution that judges it.
TEST_P(LookaheadRounds, AcceptTheFirstDraftAlways) {
  std::int64_t drafted = 0, sampled = 0;
  for (int trial = 0; trial < 24; trial++) {
    BatchRequest r = request();
    if (GetParam() == "top") {  // whose tokens are not drawn
      r.speculation.sampling.temperature = r.speculation.draft_temperature = 0;
    }
    SelfDrafting self("lookahead", kind_, 1, 16, 0);
    const RunStats stats = run_tree_alone(self.target(), self.drafter(), *kind_.rule, r).stats;
    if (stats.drafted_at.empty()) continue;  // it ended in its first round
    EXPECT_EQ(stats.accepted_at[0], stats.drafted_at[0])
        << r.speculation.rule->name << ", temperature " << r.speculation.sampling.temperature;
    drafted += stats.drafted_at[0];
    sampled += r.speculation.sampling.temperature > 0;
  }
  EXPECT_GT(drafted, 50);
  EXPECT_TRUE(sampled > 5 || GetParam() == "top");
}

INSTANTIATE_TEST_SUITE_P(Kinds, LookaheadRounds, ::testing::Values("chain", "chains", "top"),
                         [](const auto& test) { return std::string(test.param); });

TEST(LoadLookahead, WhatDoesNotFitIsRefusedByName) {
  const TemporaryDirectory folder;
  const std::vector<float> values = random_numbers(6, 1);
  const auto write = [&](const std::string& config, const std::string& name) {
    std::ofstream(folder.path() / "config.json") << config;
    const std::vector<NamedTensor> tensors = {
        {name, {DType::kF32, {2, 3}, std::as_bytes(std::span(values))}}};
    write_safetensors(folder.path() / "model.safetensors", tensors);
  };
  const auto load = [&](int d_model) { return load_lookahead(folder.path(), d_model, d_model); };
  const std::string config = R"({"model_type": "lookahead", "num_lookahead_tokens": )";
  write(config + "2}", "lookahead.weight");
  EXPECT_EQ(load(3), values);
  const std::vector<float> inflated = {values[0], values[1], values[2], 0,
                                       values[3], values[4], values[5], 0};
  EXPECT_EQ(load_lookahead(folder.path(), 3, 4), inflated);
  EXPECT_ERROR(load(4), "has the shape [2, 3], not [2, 4]: these heads belong to another target");
  write(config + "3}", "lookahead.weight");
  EXPECT_ERROR(load(3), "has the shape [2, 3], not [3, 3]");
  write(config + "2, \"hidden_size\": 4}", "lookahead.weight");
  EXPECT_ERROR(load(3), "hidden_size is 4, and the target's is 3");
  write(config + "2}", "look_ahead.weight");
  EXPECT_ERROR(load(3), "the tensor lookahead.weight is missing");
  write(R"({"model_type": "medusa"})", "lookahead.weight");
  EXPECT_ERROR(load(3), "model_type is not lookahead");
  write(config + "0}", "lookahead.weight");
  EXPECT_ERROR(load(3), "num_lookahead_tokens is 0; it must be from 1 to");
}

}  // namespace
}  // namespace specdec::batch

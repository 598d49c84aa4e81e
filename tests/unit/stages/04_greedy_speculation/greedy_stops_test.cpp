// Rounds against scripted drafts: right and wrong at every place, too few, stops in mid-round. The
// target knows one text by heart, so what must come out is known for every case.
#include <set>

#include "common/run_stats.h"
#include "tests/speculation_fixture.h"

namespace specdec {
namespace {

constexpr int kVocab = 64;
constexpr TokenId kMistake = 63;  // in no text here, and neither is Reciter::kLost
constexpr int kPrompt = 5;

// 45 different tokens, the first of which are the prompt.
std::vector<TokenId> recital() {
  std::vector<TokenId> text(45);
  for (std::size_t i = 0; i < text.size(); i++) text[i] = 1 + static_cast<TokenId>(i * 7 % 45);
  return text;
}

using IsWrong = std::function<bool(int position)>;

// Which drafts are wrong, by the place of the token in what is generated.
struct Pattern {
  std::string name;
  std::function<bool(int place)> is_wrong;
};
std::vector<Pattern> patterns() {
  return {{"all right", [](int) { return false; }},
          {"all wrong", [](int) { return true; }},
          {"every third wrong", [](int place) { return place % 3 == 2; }},
          {"irregular", [](int place) { return (place * place + place / 3) % 5 == 1; }}};
}

// The counters of a run, from its rounds alone: what stands behind a stop is nowhere in them.
void expect_counters(const RunStats& stats, const std::vector<Round>& rounds) {
  std::int64_t drafted = 0, tested = 0, accepted = 0, emitted = 0;
  std::vector<std::int64_t> accepted_at, drafted_at;
  for (const Round& round : rounds) {
    const bool stopped = round.end == RoundEnd::kStopped;
    const int counted = stopped ? round.accepted : round.drafted;
    drafted += counted;
    tested += round.accepted + (round.end == RoundEnd::kRejected ? 1 : 0);
    accepted += round.accepted;
    emitted += round.accepted + (stopped ? 0 : 1);
    for (std::size_t i = 0; i < static_cast<std::size_t>(counted); i++) {
      if (i >= drafted_at.size()) drafted_at.resize(i + 1);
      accepted_at.resize(drafted_at.size());
      drafted_at[i]++;
      if (static_cast<int>(i) < round.accepted) accepted_at[i]++;
    }
  }
  EXPECT_EQ(stats.rounds, std::ssize(rounds));
  EXPECT_EQ(stats.target_forwards, std::ssize(rounds));
  EXPECT_EQ(stats.counted, drafted);
  EXPECT_EQ(stats.tested, tested);
  EXPECT_EQ(stats.accepted, accepted);
  EXPECT_EQ(stats.emitted, emitted);
  EXPECT_EQ(stats.accepted_at, accepted_at);
  EXPECT_EQ(stats.drafted_at, drafted_at);
}

class GreedyStopsTest : public ::testing::Test {
 protected:
  // Runs the request, and checks everything that a run must satisfy: plain decoding's text, the
  // rounds that follow from the pattern, both caches, the counters. The request's prompt begins
  // the text.
  Outcome check(const std::vector<TokenId>& text, const Asked& request,
                const std::function<bool(int)>& is_wrong, TraceLimits limits, int vocab = kVocab) {
    const auto n_prompt = static_cast<int>(request.prompt.size());
    Reciter alone(text, vocab), target(text, vocab);
    const Outcome plain = decode_plainly(alone.model(), request);
    ScriptedDrafter drafter(text_with_mistakes(
        text, vocab - 1, [&](int position) { return is_wrong(position - n_prompt); }));
    drafter.limit = limits.draft_context_limit;
    const auto check_cache = [&](const Round& round, const DraftAndVerify& steps, auto context) {
      const auto& cached = target.model().text(steps.sequence());
      const std::size_t pending = round.end == RoundEnd::kStopped ? 0 : 1;
      EXPECT_TRUE(std::ranges::equal(cached, context.first(context.size() - pending)))
          << "the target keeps the text, and nothing else";
    };
    const Outcome run = speculate_greedily(target.model(), drafter, request, limits.spec_length,
                                           limits.context_limit, check_cache);
    expect_same_text(run, plain);
    std::vector<bool> agrees(plain.tokens.size());
    for (std::size_t i = 0; i < agrees.size(); i++) agrees[i] = !is_wrong(static_cast<int>(i));
    const std::vector<Round> rounds = expected_rounds(n_prompt, agrees, limits);
    expect_rounds(run, rounds);
    expect_counters(run.stats, rounds);
    EXPECT_EQ(drafter.sequences(), 0) << "the drafter's sequence was given back";
    for (const auto& call : drafter.calls) {
      EXPECT_GT(call.spec_length, 0) << "nobody is asked for nothing";
      EXPECT_LE(call.context_length - 1 + call.spec_length, limits.draft_context_limit);
    }
    return run;
  }
  Outcome check(const Asked& request, const std::function<bool(int)>& is_wrong,
                const TraceLimits& limits) {
    return check(recital(), request, is_wrong, limits);
  }

  // The text's beginning, asked to go on.
  static Asked request(int max_new_tokens, std::vector<TokenId> eos_ids = {}) {
    auto prompt = recital();
    prompt.resize(kPrompt);
    return ids_request(prompt, max_new_tokens, std::move(eos_ids));
  }
  static TokenId token(int place) { return recital().at(std::size_t(kPrompt + place)); }
};

// ---- drafts

TEST_F(GreedyStopsTest, WrongAtEachPlaceOfTheFirstRound) {
  for (int K = 1; K <= 8; K++) {
    for (int wrong = 0; wrong <= K; wrong++) {  // K: none of this round
      SCOPED_TRACE(fmt::format("K {}, draft {} is wrong", K, wrong));
      const Outcome run =
          check(request(30), [&](int place) { return place == wrong; }, {.spec_length = K});
      const Round& first = run.rounds.front().round;
      EXPECT_EQ(first.accepted, wrong);
      EXPECT_EQ(first.end, wrong < K ? RoundEnd::kRejected : RoundEnd::kAllAccepted);
      EXPECT_EQ(first.sum_acceptance_prob, wrong) << "of one-hot distributions";
    }
  }
}

TEST_F(GreedyStopsTest, EveryPattern) {
  for (const Pattern& pattern : patterns()) {
    for (int K = 0; K <= 33; K++) {
      SCOPED_TRACE(fmt::format("K {}, {}", K, pattern.name));
      check(request(35), pattern.is_wrong, {.spec_length = K});
    }
  }
}

TEST_F(GreedyStopsTest, RoundsAsFewAsTheyCanBe) {
  EXPECT_EQ(check(request(30), [](int) { return false; }, {.spec_length = 5}).rounds.size(), 5u);
  EXPECT_EQ(check(request(30), [](int) { return true; }, {.spec_length = 5}).rounds.size(), 30u);
}

// A drafter may know less than it is asked for, or nothing.
TEST_F(GreedyStopsTest, FewerDraftsThanAsked) {
  const std::vector<TokenId> text = recital();
  for (int most = 0; most <= 4; most++) {
    SCOPED_TRACE(fmt::format("at most {} drafts", most));
    Reciter target(text, kVocab);
    ScriptedDrafter drafter([&](std::span<const TokenId> context, int i) {
      return i < most ? text.at(context.size() + std::size_t(i)) : ScriptedDrafter::kNoMore;
    });
    const Outcome run = speculate_greedily(target.model(), drafter, request(30), 6);
    EXPECT_TRUE(std::ranges::equal(run.tokens, std::span(text).subspan(kPrompt, 30)));
    expect_rounds(run,
                  expected_rounds(kPrompt, std::vector<bool>(30, true), {.spec_length = most}));
    for (const auto& call : drafter.calls) EXPECT_EQ(call.spec_length, 6);
    EXPECT_EQ(run.stats.drafted_rounds, most == 0 ? 0 : std::ssize(run.rounds));
  }
}

TEST_F(GreedyStopsTest, SometimesMoreSometimesFewer) {
  const std::vector<TokenId> text = recital();
  Reciter target(text, kVocab);
  ScriptedDrafter drafter({{text[5], text[6]}, {}, {kMistake}, {text[10], kMistake, text[12]}});
  const Outcome run = speculate_greedily(target.model(), drafter, request(10), 3);
  EXPECT_TRUE(std::ranges::equal(run.tokens, std::span(text).subspan(kPrompt, 10)));
  const auto accepted = [&](std::size_t round) { return run.rounds.at(round).round.accepted; };
  EXPECT_EQ(accepted(0), 2);  // and the bonus
  EXPECT_EQ(accepted(1), 0);  // a plain step
  EXPECT_EQ(run.rounds[1].round.end, RoundEnd::kAllAccepted);
  EXPECT_EQ(accepted(2), 0);  // one wrong draft
  EXPECT_EQ(run.rounds[2].round.end, RoundEnd::kRejected);
  EXPECT_EQ(accepted(3), 1);
  EXPECT_EQ(run.stats.counted, 2 + 0 + 1 + 3);
  EXPECT_EQ(run.stats.tested, 2 + 0 + 1 + 2);
}

// ---- limits

TEST_F(GreedyStopsTest, EveryContextLimit) {
  for (const Pattern& pattern : patterns()) {
    for (int K = 1; K <= 8; K++) {
      for (int limit = kPrompt; limit <= 20; limit++) {
        SCOPED_TRACE(fmt::format("K {}, limit {}, {}", K, limit, pattern.name));
        check(request(limit - kPrompt + 1), pattern.is_wrong,
              {.spec_length = K, .context_limit = limit});
      }
    }
  }
}

// The draft's context ends first: K shrinks, plain steps follow.
TEST_F(GreedyStopsTest, EveryDraftContextLimit) {
  for (const Pattern& pattern : patterns()) {
    for (int K = 1; K <= 8; K++) {
      for (int limit = 1; limit <= 20; limit++) {
        SCOPED_TRACE(fmt::format("K {}, draft limit {}, {}", K, limit, pattern.name));
        check(request(24), pattern.is_wrong, {.spec_length = K, .draft_context_limit = limit});
      }
    }
  }
}

TEST_F(GreedyStopsTest, EveryNumberOfNewTokens) {
  for (const Pattern& pattern : patterns()) {
    for (int K = 1; K <= 8; K++) {
      for (int n = 1; n <= 20; n++) {
        SCOPED_TRACE(fmt::format("K {}, {} tokens, {}", K, n, pattern.name));
        const Outcome run = check(request(n), pattern.is_wrong, {.spec_length = K});
        EXPECT_EQ(std::ssize(run.tokens), n);
        EXPECT_EQ(run.finish_reason, FinishReason::kLength);
      }
    }
  }
}

// ---- stop tokens

// As an accepted draft at each place of a round, as a correction, as the bonus.
TEST_F(GreedyStopsTest, AnEosAtEveryPlace) {
  std::set<std::pair<int, int>> as_draft;  // K, place
  std::set<int> as_correction, as_bonus;   // K
  for (const Pattern& pattern : patterns()) {
    for (int K = 1; K <= 6; K++) {
      for (int place = 0; place < 16; place++) {
        SCOPED_TRACE(fmt::format("K {}, eos at {}, {}", K, place, pattern.name));
        // Of several ids one never comes, and one would come later.
        const Outcome run = check(request(30, {60, token(place + 3), token(place)}),
                                  pattern.is_wrong, {.spec_length = K});
        EXPECT_EQ(std::ssize(run.tokens), place + 1);
        EXPECT_EQ(run.tokens.back(), token(place)) << "the eos is a token of the text";
        EXPECT_EQ(run.finish_reason, FinishReason::kStop);
        const Round& last = run.rounds.back().round;
        if (last.end == RoundEnd::kStopped) as_draft.insert({K, last.accepted - 1});
        if (last.end == RoundEnd::kRejected) as_correction.insert(K);
        if (last.end == RoundEnd::kAllAccepted) as_bonus.insert(K);
      }
    }
  }
  EXPECT_EQ(as_draft.size(), 1u + 2 + 3 + 4 + 5 + 6) << "every place of every K was met";
  EXPECT_EQ(as_correction.size(), 6u);
  EXPECT_EQ(as_bonus.size(), 6u);
}

TEST_F(GreedyStopsTest, AnEosThatIsTheLastAllowedTokenIsAStop) {
  for (const Pattern& pattern : patterns()) {
    for (int K = 1; K <= 6; K++) {
      const Outcome run = check(request(9, {token(8)}), pattern.is_wrong, {.spec_length = K});
      EXPECT_EQ(run.tokens.size(), 9u);
      EXPECT_EQ(run.finish_reason, FinishReason::kStop) << pattern.name;
    }
  }
}

// A draft that says eos where the target does not ends nothing.
TEST_F(GreedyStopsTest, ARejectedEosEndsNothing) {
  for (int K = 1; K <= 6; K++) {
    const Outcome run = check(request(20, {kMistake}), [](int place) { return place % 4 == 1; },
                              {.spec_length = K});
    EXPECT_EQ(run.tokens.size(), 20u);
  }
}

// ---- stop texts

// They span tokens and rounds; what might become one is not streamed before it is decided.
TEST_F(GreedyStopsTest, StopTextsAcrossTokensAndRounds) {
  Asked request = text_request({}, 200);
  const std::vector<TokenId> text = request.tokenizer->encode(
      "The quick brown fox jumps over the lazy dog. And on it goes, naïvely — far away.");
  request.prompt.assign(text.begin(), text.begin() + 4);
  request.max_new_tokens = static_cast<int>(text.size()) - 4;
  bool spans_rounds = false;
  for (const std::vector<std::string>& stop : {std::vector<std::string>{"lazy dog"},
                                               {"the lazy cat", "g. And on"},
                                               {"never"},
                                               {"ïvely — f", "the lazy cow"},
                                               {"."},
                                               {"x jumps over the lazy d", "y dog. A"}}) {
    request.stop = stop;
    for (const Pattern& pattern : patterns()) {
      for (int K = 1; K <= 8; K++) {
        SCOPED_TRACE(fmt::format("stop before {}, K {}, {}", stop[0], K, pattern.name));
        const Outcome run = check(text, request, pattern.is_wrong, {.spec_length = K}, 4096);
        EXPECT_EQ(run.streamed, run.text);
        EXPECT_EQ(run.finish_reason,
                  stop[0] == "never" ? FinishReason::kLength : FinishReason::kStop);
        for (const std::string& words : stop) EXPECT_EQ(run.text.find(words), std::string::npos);
        const auto tokens = request.tokenizer->encode(stop[0], false).size();
        spans_rounds |= run.finish_reason == FinishReason::kStop &&
                        static_cast<std::size_t>(run.rounds.back().round.emitted()) < tokens;
      }
    }
  }
  EXPECT_TRUE(spans_rounds);
}

// ---- damaged models

// NaN never chooses a token: what was chosen before it stands, nothing else is emitted.
TEST_F(GreedyStopsTest, NanIsAnErrorAndNoToken) {
  const std::vector<TokenId> text = recital();
  for (int bad = 0; bad < 5; bad++) {  // the row that says token `bad` is NaN
    SCOPED_TRACE(fmt::format("token {}", bad));
    std::vector<float> row(kVocab);
    TableModel target(kVocab, [&](std::span<const TokenId> prefix) {
      std::ranges::fill(row, 0.f);
      row[static_cast<std::size_t>(text[prefix.size()])] = 1;
      if (std::ssize(prefix) == kPrompt + bad) row[7] = std::numeric_limits<float>::quiet_NaN();
      return std::span<const float>(row);
    });
    ScriptedDrafter drafter(text_with_mistakes(text, kMistake, [](int) { return false; }));
    const Asked asked = request(20);
    Generation generation(asked, asked.tokenizer_or_null());
    DraftAndVerify steps(target, drafter, 4, 100);
    std::vector<TokenId> context = asked.prompt;
    steps.prefill(context);
    EXPECT_ERROR(greedy_round(steps, context, generation), "not numbers (NaN)");
    EXPECT_TRUE(std::ranges::equal(generation.tokens(), std::span(text).subspan(kPrompt, bad)));
    EXPECT_TRUE(std::ranges::equal(context, std::span(text).first(std::size_t(kPrompt + bad))));
  }
}

}  // namespace
}  // namespace specdec

#include "stages/programs/speculation/measure_steps.h"

#include <algorithm>
#include <vector>

#include "kernels/int_size.h"
#include "stages/programs/speculation/timing.h"

namespace specdec {
namespace {

constexpr int kMostSamples = 32;
constexpr std::size_t kFewestSamples = 5;
constexpr double kEnoughSeconds = 0.5;

// Up to n of the rounds that drafted (of all rounds, if none did), evenly spread, the last one
// first. Drafts past the end of the text are left out.
std::vector<MadeRound> typical_rounds(std::span<const MadeRound> made, std::size_t tokens, int n) {
  std::vector<MadeRound> rounds;
  const bool any_drafted =
      std::ranges::any_of(made, [](const MadeRound& round) { return round.drafted > 0; });
  for (const auto& [start, drafted] : made) {
    const int K = std::min(drafted, static_cast<int>(tokens) - 1 - start);
    if (K > 0 || !any_drafted) rounds.push_back({start, K});
  }
  const int count = int_size(rounds), samples = std::min(count, n);
  std::vector<MadeRound> some;
  for (int i = 0; i < samples; i++) {
    some.push_back(rounds[count - 1 - i * count / samples]);
  }
  return some;
}

// Allows every draft: K drafts are made, and their time includes the cost of asking a gate.
class OpenGate final : public DraftGate {
 public:
  bool goes_on(std::span<const double> /*draft_probs*/, int /*drafted*/) override { return true; }
};

// Repeats the parts of a round whose context is text[0 .. at].
class Parts {
 public:
  Parts(DraftAndVerify& steps, std::span<const TokenId> text, const Sampling& drafting)
      : steps_(steps), text_(text), drafting_(drafting), drafts_(steps.drafts().alike()) {
    if (steps.policy().gate() != nullptr) drafting_.gate = &gate_;
  }

  void plain_pass(int at) { pass(at, {}, {}); }
  void verify(int at) { pass(at, drafts_.tokens(), drafts_.parents()); }

  void draft(int at, int K) {
    const DraftRequest request{steps_.draft_sequence(),
                               text_.first(static_cast<std::size_t>(at) + 1),
                               K,
                               drafting_,
                               &drafts_,
                               steps_.sequence()};
    steps_.target().truncate(steps_.sequence(), at);
    steps_.drafter().truncate(steps_.draft_sequence(), at);
    steps_.drafter().draft(std::span(&request, 1));
  }

 private:
  void pass(int at, std::span<const TokenId> drafts, std::span<const int> parents) {
    tokens_.assign(1, text_[at]);
    tokens_.insert(tokens_.end(), drafts.begin(), drafts.end());
    const auto rows = int_size(tokens_);
    steps_.target().truncate(steps_.sequence(), at);
    steps_.target().forward(Segment{steps_.sequence(), tokens_, rows, parents},
                            steps_.logits_rows(rows));
  }

  DraftAndVerify& steps_;
  std::span<const TokenId> text_;
  std::vector<TokenId> tokens_;  // the tokens that a pass is fed
  OpenGate gate_;
  Sampling drafting_;
  Drafts drafts_;
};

// Seconds of each part, sample by sample.
struct Samples {
  std::vector<double> pass, choice, draft;        // draft: per token
  double drafting = 0, drafts = 0;                // totals: draft phases, and their tokens
  std::vector<std::vector<double>> verification;  // [largest K + 1]
  double plain = 0;                               // total of the plain steps

  StepTimes times() {
    const auto n = int_size(pass);
    double verifications = 0;
    for (std::vector<double>& of_K : verification) {
      if (!of_K.empty()) verifications += static_cast<double>(of_K.size()) * median(of_K);
    }
    return {.target_pass = median(pass),
            .choice = median(choice),
            .draft_step = draft.empty() ? 0 : median(draft),
            .verification = verifications / n,
            .mean_draft = draft.empty() ? 0 : drafting / drafts,
            .plain_token = plain / n,
            .samples = n};
  }
};

}  // namespace

StepTimes measure_steps(DraftAndVerify& steps, std::span<const TokenId> text,
                        std::span<const MadeRound> made, const Sampling& drafting,
                        const std::function<void(std::span<const TokenId> context)>& choose) {
  const std::vector<MadeRound> rounds = typical_rounds(made, text.size(), kMostSamples);
  if (rounds.empty()) return {};
  Parts parts(steps, text, drafting);
  Samples samples;
  samples.verification.resize(static_cast<std::size_t>(steps.spec_length()) + 1);
  const auto start = Stopwatch::now();
  // From the last round to the first, so that a truncated cache always holds the earlier tokens.
  // Each part is timed after the one that precedes it in a run, with the same data in the
  // processor's caches: plain step after plain step, drafts after the target, then verification.
  for (const MadeRound& round : rounds) {
    const int at = round.start, K = round.drafted;
    if (samples.pass.size() >= kFewestSamples && Stopwatch::seconds_since(start) > kEnoughSeconds) {
      break;
    }
    parts.draft(at, K);  // feeds the draft model the tokens that it has not seen
    parts.plain_pass(at);
    samples.pass.push_back(seconds_of([&] { parts.plain_pass(at); }));
    const auto context = text.first(static_cast<std::size_t>(at) + 1);
    samples.choice.push_back(seconds_of([&] { choose(context); }));
    samples.plain += samples.pass.back() + samples.choice.back();
    if (K == 0) continue;  // no round of the run drafted
    const double drafting_seconds = seconds_of([&] { parts.draft(at, K); });
    samples.draft.push_back(drafting_seconds / K);
    samples.drafting += drafting_seconds;
    samples.drafts += K;
    samples.verification[K].push_back(seconds_of([&] { parts.verify(at); }));
  }
  return samples.times();
}

}  // namespace specdec

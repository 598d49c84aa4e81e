#include "stages/programs/speculation/measure_steps.h"

#include <algorithm>
#include <vector>

#include "common/run_stats.h"
#include "stages/programs/speculation/timing.h"

namespace specdec {
namespace {

constexpr int kMostSamples = 32;
constexpr int kStride = 37;  // a prime above that, so that its multiples meet every sample
constexpr int kFewestSamples = 5;

// K of the rounds that drafted, n of them, spread evenly over the rounds in order of K.
std::vector<int> typical_spec_lengths(const RunStats& stats, int n) {
  std::vector<int> all, some;
  for (int K = 1; K < std::ssize(stats.rounds_by_drafted); K++) {
    all.insert(all.end(),
               static_cast<std::size_t>(stats.rounds_by_drafted[static_cast<std::size_t>(K)]), K);
  }
  for (std::size_t i = 0; !all.empty() && std::ssize(some) < n; i++) {
    some.push_back(all[(2 * i + 1) * all.size() / (2 * static_cast<std::size_t>(n))]);
  }
  return some;
}

// Wants every draft. So K drafts are made, with what it costs that somebody is asked.
class OpenGate final : public DraftGate {
 public:
  bool goes_on(std::span<const double> /*draft_probs*/, int /*drafted*/) override { return true; }
};

// The parts of a round after text[0 .. at], as often as they are asked for.
class Parts {
 public:
  Parts(DraftAndVerify& steps, std::span<const TokenId> text, const Sampling& drafting)
      : steps_(steps), text_(text), drafting_(drafting), drafts_(steps.drafts().alike()) {
    if (steps.policy().gate() != nullptr) drafting_.gate = &gate_;
  }

  void target_pass(int at, int rows) {
    const auto first = static_cast<std::size_t>(at);
    steps_.target().truncate(steps_.sequence(), at);
    steps_.target().forward(
        Segment{steps_.sequence(), text_.subspan(first, static_cast<std::size_t>(rows)), rows},
        steps_.logits_rows(rows));
  }

  void draft(int at, int K) {
    const DraftRequest request{steps_.draft_sequence(),
                               text_.first(static_cast<std::size_t>(at) + 1), K, drafting_,
                               &drafts_};
    steps_.drafter().truncate(steps_.draft_sequence(), at);
    steps_.drafter().draft(std::span(&request, 1));
  }

 private:
  DraftAndVerify& steps_;
  std::span<const TokenId> text_;
  OpenGate gate_;
  Sampling drafting_;
  Drafts drafts_;
};

// Where the parts are measured, and how often: evenly spread over the generated text, from the last
// place at which the target and the drafter have room for `most` tokens more.
struct Places {
  int last = 0, count = 0, samples = 0;

  Places(const DraftAndVerify& steps, std::size_t tokens, int prompt, int most)
      : last(std::min({static_cast<int>(tokens) - most - 1, steps.target().length(steps.sequence()),
                       steps.drafter().context_limit() - most})),
        count(last - prompt + 2),
        samples(std::clamp(count, 0, kMostSamples)) {}

  int operator[](int sample) const { return last - sample * count / samples; }
};

// Seconds of each part, sample by sample.
struct Samples {
  std::vector<double> pass, choice, draft;        // draft: of one token
  double drafting = 0, drafts = 0;                // all draft phases together, and their tokens
  std::vector<std::vector<double>> verification;  // [K + 1]
  double plain = 0;                               // all plain steps together

  StepTimes times() {
    const auto n = static_cast<int>(pass.size());
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

StepTimes measure_steps(DraftAndVerify& steps, std::span<const TokenId> text, int prompt,
                        const RunStats& stats, const Sampling& drafting,
                        const std::function<void(std::span<const TokenId> context)>& choose,
                        double enough_seconds) {
  const int most = static_cast<int>(std::ssize(stats.rounds_by_drafted)) - 1;
  if (most < 0) return {};  // no round at all
  const Places places(steps, text.size(), prompt, most);
  if (places.samples < 1) return {};
  const std::vector<int> spec_lengths = typical_spec_lengths(stats, places.samples);
  Parts parts(steps, text, drafting);
  Samples samples;
  samples.verification.resize(static_cast<std::size_t>(most) + 1);
  const auto start = Stopwatch::now();
  // Backwards, so that a truncated cache always holds what comes before. A plain step is timed
  // after a plain step, a draft phase after the target and a verification after the draft phase, as
  // they follow each other in a run: what the one leaves in the processor's cache, the next finds.
  for (int i = 0; i < places.samples; i++) {
    if (i >= kFewestSamples && Stopwatch::seconds_since(start) > enough_seconds) break;
    const int at = places[i];
    // In no order: when the time is over, no K has been left out for being large.
    const int K =
        most == 0 ? 0 : spec_lengths[static_cast<std::size_t>(i * kStride % places.samples)];
    parts.draft(at, K);  // catches up
    parts.target_pass(at, 1);
    samples.pass.push_back(seconds_of([&] { parts.target_pass(at, 1); }));
    samples.choice.push_back(
        seconds_of([&] { choose(text.first(static_cast<std::size_t>(at) + 1)); }));
    samples.plain += samples.pass.back() + samples.choice.back();
    if (K == 0) continue;  // there was no round that drafted
    const double drafting_seconds = seconds_of([&] { parts.draft(at, K); });
    samples.draft.push_back(drafting_seconds / K);
    samples.drafting += drafting_seconds;
    samples.drafts += K;
    samples.verification[static_cast<std::size_t>(K)].push_back(
        seconds_of([&] { parts.target_pass(at, K + 1); }));
  }
  return samples.times();
}

}  // namespace specdec

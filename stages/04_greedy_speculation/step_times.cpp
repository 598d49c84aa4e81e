#include "stages/04_greedy_speculation/step_times.h"

#include <algorithm>
#include <vector>

namespace specdec {
namespace {

constexpr int kMostSamples = 32;
constexpr double kMostSeconds = 0.5;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <typename Work>
double seconds_of(const Work& work) {
  double seconds = 0;
  {
    const Stopwatch watch(seconds);
    work();
  }
  return seconds;
}

// The parts of a round after text[0 .. at], as often as they are asked for.
class Parts {
 public:
  Parts(DraftAndVerify& steps, std::span<const TokenId> text, const Sampling& drafting)
      : steps_(steps), text_(text), drafting_(drafting), drafts_(steps.spec_length(), steps.V()) {}

  void target_pass(int at, int rows) {
    const auto first = static_cast<std::size_t>(at);
    steps_.target().truncate(steps_.sequence(), at);
    steps_.target().forward(
        Segment{steps_.sequence(), text_.subspan(first, static_cast<std::size_t>(rows)), rows},
        steps_.logits_rows(rows));
  }

  void draft(int at) {
    const DraftRequest request{steps_.draft_sequence(),
                               text_.first(static_cast<std::size_t>(at) + 1), steps_.spec_length(),
                               drafting_, &drafts_};
    steps_.drafter().truncate(steps_.draft_sequence(), at);
    steps_.drafter().draft(std::span(&request, 1));
  }

 private:
  DraftAndVerify& steps_;
  std::span<const TokenId> text_;
  const Sampling& drafting_;
  Drafts drafts_;
};

}  // namespace

StepTimes measure_steps(DraftAndVerify& steps, std::span<const TokenId> text, int prompt,
                        const Sampling& drafting,
                        const std::function<void(std::span<const TokenId> context)>& choose) {
  const int K = steps.spec_length();
  // The last place is one where the target and the drafter have room for K tokens more.
  const int last =
      std::min({static_cast<int>(text.size()) - K - 1, steps.target().length(steps.sequence()),
                steps.drafter().context_limit() - K});
  const int first = prompt - 1, places = last - first + 1;
  if (K == 0 || places < 1) return {};
  const int samples = std::min(places, kMostSamples);
  Parts parts(steps, text, drafting);
  std::vector<double> pass, choice, draft, verification;
  double spent = 0, plain = 0;
  // Backwards, so that a truncated cache always holds what comes before. A plain step is timed
  // after a plain step, a draft phase after the target and a verification after the draft phase, as
  // they follow each other in a run: what the one leaves in the processor's cache, the next finds.
  for (int i = 0; i < samples && spent < kMostSeconds; i++) {
    const int at = last - i * places / samples;
    spent += seconds_of([&] {
      parts.draft(at);  // catches up
      parts.target_pass(at, 1);
    });
    pass.push_back(seconds_of([&] { parts.target_pass(at, 1); }));
    choice.push_back(seconds_of([&] { choose(text.first(static_cast<std::size_t>(at) + 1)); }));
    draft.push_back(seconds_of([&] { parts.draft(at); }) / K);
    verification.push_back(seconds_of([&] { parts.target_pass(at, K + 1); }));
    plain += pass.back() + choice.back();
    spent += pass.back() + choice.back() + draft.back() * K + verification.back();
  }
  const auto n = static_cast<int>(pass.size());
  return {median(pass), median(choice), median(draft), median(verification), plain / n, n};
}

}  // namespace specdec

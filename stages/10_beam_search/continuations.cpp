#include "stages/10_beam_search/continuations.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/language_model.h"
#include "common/sampling/bad_logits.h"
#include "kernels/cpu/softmax.h"

namespace specdec {
namespace {

constexpr float kNoToken = -std::numeric_limits<float>::infinity();

// The order of continuations: the larger score first; among equals, the lower beam, then the lower
// id.
bool is_better(const Continuation& a, const Continuation& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

// The logarithm of the sum of e^logit, which turns a logit into a log-probability. logits: [V]
double log_total(std::span<const float> logits) {
  const float peak = cpu::largest_score(logits);
  if (!std::isfinite(peak)) {
    throw BadLogits(
        "logits are no distribution, so beams cannot be extended; weights may be damaged");
  }
  return peak + std::log(cpu::sum_of_exponentials(logits, peak, 1));
}

}  // namespace

std::vector<Continuation> best_continuations(Backend& backend, ConstDeviceRows logits,
                                             std::span<const BeamRow> beams, int count) {
  std::vector<Continuation> best;  // a heap, whose first element is the worst
  const auto is_full = [&] { return std::ssize(best) == count; };
  for (int beam = 0; beam < std::ssize(beams); beam++) {
    const std::vector<float> row = to_host(backend, logits.slice(beams[beam].row, 1));
    const double total = log_total(row);
    for (TokenId token = 0; token < std::ssize(row); token++) {
      if (row[token] == kNoToken) continue;
      const Continuation next{beam, token, beams[beam].score + (row[token] - total)};
      // Scores are compared first, because the loop goes through all of the vocabulary.
      if (is_full() && next.score <= best.front().score) continue;
      if (is_full()) {
        std::ranges::pop_heap(best, is_better);
        best.pop_back();
      }
      best.push_back(next);
      std::ranges::push_heap(best, is_better);
    }
  }
  std::ranges::sort(best, is_better);
  return best;
}

}  // namespace specdec

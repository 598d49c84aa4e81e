#include "stages/programs/self/round_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <span>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr float kTolerance = 5e-5f;  // times the largest logit

template <typename T>
std::vector<T> integers(const SafetensorsFile& file, const std::string& name, DType type) {
  const TensorView view = file.tensor(name);
  if (view.dtype != type)
    fail("{}: tensor {} is not of type {}", file.name(), name, dtype_name(type));
  std::vector<T> values(view.bytes.size() / sizeof(T));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

// The ids of all logits of a drafter.
std::vector<std::int32_t> ids_of(const std::filesystem::path& drafter, int vocab_size) {
  const SafetensorsFile file(drafter / "model.safetensors");
  std::vector<std::int32_t> ids(vocab_size);
  std::iota(ids.begin(), ids.end(), 0);
  if (!file.contains("d2t")) return ids;
  const auto offsets = integers<std::int64_t>(file, "d2t", DType::kI64);
  ids.resize(offsets.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] += static_cast<std::int32_t>(offsets[i]);
  return ids;
}

std::set<std::string> prompts_of(const SafetensorsFile& file) {
  std::set<std::string> prompts;
  for (const TensorEntry& tensor : file.header().tensors) {
    prompts.insert(tensor.name.substr(0, tensor.name.find('.')));
  }
  return prompts;
}

// What differs in a draft's logits.
std::string difference(const GoldenRound& golden, int draft, std::span<const float> got) {
  const auto want = std::span(golden.logits).subspan(draft * golden.ids.size(), golden.ids.size());
  float largest = 0;
  for (const float logit : want) largest = std::max(largest, std::abs(logit));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const float logit = got[golden.ids[i]];
    if (std::abs(logit - want[i]) <= kTolerance * largest) continue;
    return fmt::format("draft {} after {}: the logit of token {} is {}, and should be {}", draft,
                       golden.name, golden.ids[i], logit, want[i]);
  }
  const auto likeliest = std::ranges::max_element(got) - got.begin();
  if (likeliest == golden.drafts[draft]) return "";
  return fmt::format("draft {} after {} is token {}, and should be {}", draft, golden.name,
                     likeliest, golden.drafts[draft]);
}

}  // namespace

std::vector<GoldenRound> read_rounds(const std::filesystem::path& path,
                                     const std::filesystem::path& drafter, int vocab_size) {
  const SafetensorsFile file(path);
  std::vector<GoldenRound> rounds;
  for (const std::string& prompt : prompts_of(file)) {
    GoldenRound round;
    round.name = prompt;
    round.context = integers<TokenId>(file, prompt + ".token_ids", DType::kI32);
    round.drafts = integers<TokenId>(file, prompt + ".tokens", DType::kI32);
    const bool some = file.contains(prompt + ".logits_ids");
    round.ids = some ? integers<std::int32_t>(file, prompt + ".logits_ids", DType::kI32)
                     : ids_of(drafter, vocab_size);
    round.logits = to_float32(file.tensor(prompt + ".logits"));
    if (round.logits.size() != round.drafts.size() * round.ids.size()) {
      fail("{}: tensor {}.logits has another number of columns than ids", file.name(), prompt);
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::string check_round(const GoldenRound& golden, LanguageModel& target, LanguageModel& drafter,
                        RoundModel& round) {
  const std::span<const TokenId> context = golden.context;
  DraftRequest request;
  request.sequence = drafter.create();
  request.target_sequence = target.create();
  request.context = context;
  request.spec_length = int_size(golden.drafts);
  target.forward(Segment{request.target_sequence, context.first(context.size() - 1), 0}, {});
  round.begin(std::span(&request, 1));
  const LogitsBuffer logits(drafter, 1);
  std::vector<float> got(drafter.vocab_size());
  std::string problem;
  for (int i = 0; i < int_size(golden.drafts) && problem.empty(); ++i) {
    const auto next = i == 0 ? context : std::span(golden.drafts).subspan(i - 1, 1);
    drafter.forward(Segment{request.sequence, next, 1}, logits.rows(0, 1));
    drafter.backend().download(logits.rows(0, 1).data, got.data(), got.size() * sizeof(float));
    problem = difference(golden, i, got);
  }
  drafter.release(request.sequence);
  target.release(request.target_sequence);
  return problem;
}

}  // namespace specdec

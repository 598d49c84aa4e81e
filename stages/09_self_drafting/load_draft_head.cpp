#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "common/base/error.h"
#include "common/inflation/inflated_weights.h"
#include "stages/09_self_drafting/draft_head.h"

namespace specdec {
namespace {

// The target's tokens that the head has rows for: row i is of token i + d2t[i].
std::vector<std::int32_t> tokens_of_head(HeadFile& file, int rows, int V) {
  const TensorView offsets = file.take("d2t", {rows}, DType::kI64);
  const TensorView known = file.take("t2d", {V}, DType::kBool);
  std::vector<std::int32_t> tokens;
  std::vector<bool> has(V);
  for (int i = 0; i < rows; ++i) {
    std::int64_t offset = 0;
    std::memcpy(&offset, offsets.bytes.data() + i * sizeof(offset), sizeof(offset));
    const bool inside = -i <= offset && offset < V - i;
    if (!inside || has[i + offset] || known.bytes[i + offset] == std::byte{0}) {
      fail("{}: d2t: row {} would be of token {} + {}, which is {}", file.name(), i, i, offset,
           !inside           ? "none of the target's"
           : has[i + offset] ? "another row's"
                             : "not in t2d");
    }
    tokens.push_back(static_cast<std::int32_t>(i + offset));
    has[tokens.back()] = true;
  }
  if (std::ranges::count(known.bytes, std::byte{0}) != V - rows) {
    fail("{}: t2d has other tokens than d2t", file.name());
  }
  return tokens;
}

// The target's rows of these tokens.
Weight rows_of_target(const WeightSource& target, std::span<const std::int32_t> tokens) {
  const bool tied = target.config().tied_head;
  const Weight head = target.weight(tied ? WeightKind::kEmbedding : WeightKind::kHead, -1);
  const std::size_t bytes = head.view.bytes.size() / head.view.shape[0];
  auto memory = std::make_unique<std::byte[]>(tokens.size() * bytes);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::memcpy(memory.get() + i * bytes, head.view.bytes.data() + tokens[i] * bytes, bytes);
  }
  const TensorView rows{head.view.dtype,
                        {std::ssize(tokens), head.view.shape[1]},
                        std::span(memory.get(), tokens.size() * bytes)};
  return {.view = rows, .memory = std::move(memory)};
}

}  // namespace

DraftHead load_draft_head(HeadFile& file, const std::string& name, const WeightSource& target,
                          const LlamaConfig& runs, Backend& backend) {
  const LlamaConfig& made_for = target.config();
  const int V = made_for.vocab_size, E = made_for.d_model;
  const bool counted = file.config().has("draft_vocab_size") || file.contains("d2t");
  const int rows = counted ? file.size_of("draft_vocab_size") : V;
  DraftHead head;
  if (rows != V || file.contains("d2t")) head.tokens = tokens_of_head(file, rows, V);
  if (!file.contains(name) && head.tokens.empty()) return head;  // the target's
  Weight stored = file.contains(name) ? Weight{.view = file.take(name, {rows, E})}
                                      : rows_of_target(target, head.tokens);
  const int rows_run = static_cast<int>(std::int64_t{rows} * runs.vocab_size / V);
  if (rows_run != rows || runs.d_model != E) {
    stored = inflated_matrix(stored.view, rows_run, runs.d_model, 0);
  }
  // The other rows of an inflated head are of ids that are no tokens.
  for (int i = rows; i < rows_run && !head.tokens.empty(); ++i) head.tokens.push_back(V + i - rows);
  const HostMatrix matrix = host_matrix(stored.view);
  head.matrix = backend.load_matrix(std::span(&matrix, 1));
  return head;
}

}  // namespace specdec

#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/speculation/target_rows.h"
#include "stages/09_self_drafting/heads.h"
#include "stages/09_self_drafting/heads_model.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/sampling_scenes.h"
#include "tests/table_model.h"

// Targets that hand out rows, and heads, for the probe of stage 9.
namespace specdec::course {

using Numbers = std::vector<int>;

// Hands out rows of two numbers: a token and its position. It counts those that it hands out again.
class TokenRows final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    int row = 0;
    for (const Segment& segment : batch) {
      Segment fresh = segment;
      fresh.tokens = segment.tokens.subspan(std::size_t(segment.hidden.again));
      fresh.hidden = {};
      again += segment.hidden.again;
      if (!fresh.tokens.empty()) ForwardingModel::forward(std::span(&fresh, 1), logits_of(fresh));
      const int n = int_size(segment.tokens);
      for (int i = n - segment.hidden.rows; i < n; i++) {
        const float values[] = {float(segment.tokens[std::size_t(i)]),
                                float(position_of(segment, i, length(segment.sequence)))};
        backend().upload(values, out.hidden.row(row++), sizeof(values));
      }
    }
  }
  int row_width() const override { return 2; }
  int n_blocks() const override { return 1; }

  int again = 0;

 private:
  DeviceRows logits_of(const Segment& segment) {
    logits_ = DeviceArray<float>(backend(), std::size_t(segment.logits_rows) * vocab_size());
    return matrix(logits_, segment.logits_rows, vocab_size());
  }

  DeviceArray<float> logits_;
};

// A target with rows, and a sequence whose tokens are 1, 2, 3, ... in the order in which they are
// fed: so a row tells which token it belongs to.
struct RowsScene {
  static constexpr int V = 64;

  RowsScene() = default;
  RowsScene(const RowsScene&) = delete;
  RowsScene& operator=(const RowsScene&) = delete;

  // `logits_rows` as in a segment. parents: of a tree.
  void feed(int count, int logits_rows, const Numbers& parents = {}) {
    Tokens tokens;
    for (int i = 0; i < count; i++) tokens.push_back(++fed);
    logits = DeviceArray<float>(rows.backend(), std::size_t(logits_rows) * V);
    rows.forward(Segment{sequence, tokens, logits_rows, parents}, matrix(logits, logits_rows, V));
  }
  // Keeps the nodes of a path, of a tree that begins after `start` tokens.
  void keep(int start, const Numbers& path) {
    Numbers places;
    for (const int node : path) places.push_back(start + node);
    rows.keep(sequence, start, places);
  }
  // Which row a drafter gets.
  void row_fact(const std::string& when) {
    const int before = target.again;
    const Tokens cached = model.text(sequence);
    const auto row = to_host(rows.backend(), rows.last(sequence, cached));
    fact(fmt::format("token and position of the row, {}", when), Numbers{int(row[0]), int(row[1])});
    fact(fmt::format("rows computed again, {}", when), target.again - before);
  }

  int fed = 0;
  Rows table{V, [](std::span<const TokenId>) { return 0; }};
  TableModel model{V, table.row_of()};
  TokenRows target{model};
  TargetRows rows{target, {Outputs::kAfterNorm}, 1, 24};
  DeviceArray<float> logits;
  SequenceId sequence = rows.create();
};

// Numbers of a seed, around 0.
inline std::vector<float> numbers_of(std::uint64_t seed, int count) {
  std::vector<float> numbers;
  for (int i = 0; i < count; i++) {
    numbers.push_back(float(2 * uniform(seed, i, Purpose::kRace) - 1));
  }
  return numbers;
}

// Says the number of the question, and writes down about which tokens it is asked.
class AskedModel final : public SelfModel {
 public:
  static constexpr int V = 2;
  explicit AskedModel(Backend& backend) : SelfModel(4), backend_(backend) {}

  void begin(std::span<const DraftRequest>) override {}
  int vocab_size() const override { return V; }
  Backend& backend() const override { return backend_; }

  // What a pass asks, and which questions its rows answer.
  void pass(std::span<const Segment> batch, const std::string& when) {
    sequences_.clear();
    positions_.clear();
    const int n = wanted_rows(batch);
    const DeviceArray<float> logits(backend_, std::size_t(n) * V);
    backend_.fill(matrix(logits, n, V), 0);
    forward(batch, matrix(logits, n, V));
    fact(fmt::format("sequences that are asked about, {}", when), sequences_);
    fact(fmt::format("positions that are asked about, {}", when), positions_);
    Numbers answered;
    for (const auto& row : host_rows(n, logits)) answered.push_back(int(row));
    fact(fmt::format("questions that the rows answer, {}", when), answered);
  }

 private:
  void say(SequenceId sequence, int position, float* logits) override {
    sequences_.push_back(sequence);
    positions_.push_back(position);
    *logits = float(positions_.size());
  }
  std::vector<float> host_rows(int n, const DeviceArray<float>& logits) {
    std::vector<float> first;
    for (int i = 0; i < n; i++)
      first.push_back(to_host(backend_, matrix(logits, n, V))[std::size_t(i * V)]);
    return first;
  }

  Backend& backend_;
  Numbers sequences_, positions_;
};

}  // namespace specdec::course

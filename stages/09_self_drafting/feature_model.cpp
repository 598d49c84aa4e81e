#include "stages/09_self_drafting/feature_model.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
FeatureModel::FeatureModel(const LlamaModel& target, FeatureLayer layer,
                           std::unique_ptr<KvCache> cache, int token_limit,
                           const Capacity& capacity)
    : target_(target),
      layer_(std::move(layer)),
      cache_(std::move(cache)),
      input_(target, layer_, kPassRows),
      llama_(*layer_.block, *cache_, {.max_pass_rows = kPassRows}),
      capacity_(capacity),
      projection_(target, layer_.head, token_limit),
      features_(backend()),
      made_(backend()),
      normed_(backend()),
      asked_(backend()) {
  llama_.enter_through(&input_);
}

void FeatureModel::follow(FeatureModel& before) {
  SPECDEC_CHECK(own_.empty() && before.own_.empty(), "no sequences");
  before_ = &before;
  before.is_followed_ = true;
  first_place_ = before.first_place_ + 1;
}

// Looks up the features of all tokens that the layer has not seen. A feature belongs to the token
// before, so the first one that is needed has the place before the first new token.
void FeatureModel::begin(std::span<const DraftRequest> requests) {
  SPECDEC_CHECK(rows_ != nullptr || before_ != nullptr, "rows of the target");
  for (const DraftRequest& r : requests) {
    const auto cached = r.context.first(r.context.size() - 1);  // all but the pending token
    State& state = this->state(r.sequence);
    state.pending = int_size(cached);
    if (before_ != nullptr) continue;
    state.first = std::max(0, length(r.sequence) - 1);
    state.features = rows_->rows(r.target_sequence, cached, state.first);
  }
}

void FeatureModel::forward(std::span<const Segment> batch, const Outputs& out) {
  feed(batch, nullptr, out);
}

// The block is fed any ids. Those that count enter through the input, which looks up embeddings
// where the ids are.
void FeatureModel::forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                                  DeviceRows logits) {
  constexpr TokenId kAny = 0;
  const int n = int_size(sequences);
  for (int first = 0; first < n; first += kPassRows) {
    chosen_.clear();
    for (int i = first; i < std::min(n, first + kPassRows); ++i) {
      SPECDEC_CHECK(length(sequences[i]) > state(sequences[i]).pending, "a draft");
      chosen_.push_back({sequences[i], std::span(&kAny, 1), 1});
    }
    feed(chosen_, ids + first, logits.slice(first, int_size(chosen_)));
  }
}

void FeatureModel::feed(std::span<const Segment> batch, const std::int32_t* ids,
                        const Outputs& out) {
  SPECDEC_CHECK(out.hidden.rows == 0, "no rows handed out");
  batch_.clear();
  logits_rows_.clear();
  int n_tokens = 0;
  for (const Segment& segment : batch) {
    if (const Segment of_layer = this->of_layer(segment); !of_layer.tokens.empty()) {
      batch_.push_back(of_layer);
      logits_rows_.push_back(segment.logits_rows);
      n_tokens += int_size(of_layer.tokens);
    }
  }
  const DeviceRows features = features_.rows(n_tokens, llama_.row_width());
  int row = 0;
  for (const Segment& segment : batch_) {
    const int n = int_size(segment.tokens);
    gather_features(segment, features.slice(row, n));
    row += n;
  }
  input_.set_rows(features, ids);
  if (n_tokens > 0) {
    const DeviceRows made = run_layer();
    DeviceRows normed = made;
    if (layer_.switches.head_norm) {
      normed = normed_.rows(made.rows, made.width);
      backend().rms_norm(made, layer_.head_norm.data(), layer_.block->config().rms_norm_eps,
                         normed);
    }
    keep_own(layer_.switches.feeds_normed ? normed : made);
    if (out.logits.rows > 0) projection_.project(asked_for(normed, out.logits.rows), out.logits);
  }
  for (const Segment& segment : batch) {
    int& without_row = state(segment.sequence).without_row;
    without_row = std::min(first_place_, without_row + int_size(segment.tokens));
  }
}

// The segment without tokens that have no row. The layer hands out rows for all logits, and for all
// tokens that drafts may follow.
Segment FeatureModel::of_layer(const Segment& segment) const {
  const State& state = states_[segment.sequence];
  const int skipped = std::min(first_place_ - state.without_row, int_size(segment.tokens));
  const int n = int_size(segment.tokens) - skipped;
  SPECDEC_CHECK(segment.logits_rows <= n && (skipped == 0 || segment.parents.empty()),
                "no logits of a text's first token");
  const int own = std::clamp(next_place(segment.sequence) + n - first_own(state), 0, n);
  return {segment.sequence,
          segment.tokens.subspan(skipped),
          0,
          segment.parents,
          {.rows = std::max(segment.logits_rows, own)}};
}

// [snippet features]
// Tokens up to the pending one follow tokens of which the target has rows. All others are drafts,
// and follow the pending token or a draft.
void FeatureModel::gather_features(const Segment& segment, DeviceRows features) {
  const State& state = this->state(segment.sequence);
  const int n = int_size(segment.tokens), n_nodes = int_size(segment.parents);
  const int first = next_place(segment.sequence);  // the place of its first token
  const int of_target = before_ != nullptr ? 0 : std::clamp(state.pending + 1 - first, 0, n);
  if (of_target > 0) {
    take_features(state.features.slice(first - 1 - state.first, of_target),
                  features.slice(0, of_target));
  }
  const int tree = first + n - n_nodes;  // the place of its first node
  for (int i = of_target; i < n; ++i) {
    int parent = first + i - 1;
    if (n_nodes > 0) parent = tree + std::max(-1, segment.parents[n_nodes - n + i]);
    backend().copy(feature_after(segment.sequence, parent), features.row(i),
                   features.width * sizeof(float));
  }
}

const float* FeatureModel::feature_after(SequenceId sequence, int place) const {
  if (layer_.mask_feature.size() > 0) return layer_.mask_feature.data();
  return (before_ != nullptr ? *before_ : *this).own_row(sequence, place).data;
}
// [end snippet features]

void FeatureModel::take_features(ConstDeviceRows of_target, DeviceRows features) {
  if (layer_.switches.attention == FeatureAttention::kBoth) {
    backend().matmul(of_target, *layer_.fc, features);
  } else {
    backend().copy(of_target.data, features.data,
                   std::size_t(features.rows) * features.width * sizeof(float));
  }
}

DeviceRows FeatureModel::own_row(SequenceId sequence, int place) const {
  const int i = place - first_own(states_[sequence]);
  SPECDEC_CHECK(0 <= i && i < own_rows(), "row 0 to {}, not {}", own_rows() - 1, i);
  return matrix(own_[sequence], own_rows(), llama_.row_width()).slice(i, 1);
}

// The rows that the layer makes of batch_, those that it is asked for.
DeviceRows FeatureModel::run_layer() {
  Outputs out;
  int n = 0;
  for (const Segment& segment : batch_) n += segment.hidden.rows;
  out.hidden = made_.rows(n, llama_.row_width());
  const int after_all = llama_.n_blocks();
  out.places = std::span(&after_all, 1);
  llama_.forward(batch_, out);
  return out.hidden;
}

// Keeps the rows that are features of tokens after them: those from the pending token on.
void FeatureModel::keep_own(DeviceRows rows) {
  int row = 0;
  for (const Segment& segment : batch_) {
    row += segment.hidden.rows;
    const int end = next_place(segment.sequence), first = first_own(state(segment.sequence));
    const int n = std::clamp(end - first, 0, int_size(segment.tokens));
    if (n == 0) continue;
    own_row(segment.sequence, end - 1);  // checks that there is room
    backend().copy(rows.row(row - n), own_row(segment.sequence, end - n).data,
                   std::size_t(n) * rows.width * sizeof(float));
  }
}

// Those n rows whose logits are wanted.
DeviceRows FeatureModel::asked_for(DeviceRows rows, int n) {
  const DeviceRows asked = asked_.rows(n, rows.width);
  int from = 0, to = 0;
  for (int i = 0; i < int_size(batch_); ++i) {
    from += batch_[i].hidden.rows;
    const int wanted = logits_rows_[i];
    backend().copy(rows.row(from - wanted), asked.row(to),
                   std::size_t(wanted) * rows.width * sizeof(float));
    to += wanted;
  }
  SPECDEC_CHECK(to == n, "logits of {} rows, not {}", to, n);
  return asked;
}

SequenceId FeatureModel::create() {
  const SequenceId sequence = created(llama_.create());
  states_[sequence] = {};
  return sequence;
}

SequenceId FeatureModel::fork(SequenceId sequence) {
  const SequenceId result = created(llama_.fork(sequence));
  states_[result] = states_[sequence];
  return result;
}

// Has room for its rows.
SequenceId FeatureModel::created(SequenceId sequence) {
  while (sequence >= int_size(states_)) {
    states_.emplace_back();
    own_.emplace_back(backend(), std::size_t(own_rows()) * llama_.row_width());
  }
  return sequence;
}

void FeatureModel::release(SequenceId sequence) { llama_.release(sequence); }

int FeatureModel::length(SequenceId sequence) const {
  return llama_.length(sequence) + states_[sequence].without_row;
}

void FeatureModel::truncate(SequenceId sequence, int length) {
  SPECDEC_CHECK(0 <= length && length <= this->length(sequence), "to keep 0 to {} tokens, not {}",
                this->length(sequence), length);
  int& without_row = states_[sequence].without_row;
  without_row = std::min(without_row, length);
  llama_.truncate(sequence, length - without_row);
}

void FeatureModel::keep(SequenceId sequence, int start, std::span<const int> kept) {
  std::vector<int> of_layer;
  for (const int place : kept) of_layer.push_back(place - first_place_);
  llama_.keep(sequence, start - first_place_, of_layer);
}

bool FeatureModel::can_extend(std::span<const Extension> extensions) const {
  std::vector<Extension> of_layer;
  for (const auto& [sequence, tokens] : extensions) {
    const int skipped = std::min(tokens, first_place_ - states_[sequence].without_row);
    of_layer.push_back({sequence, tokens - skipped});
  }
  return llama_.can_extend(of_layer);
}

}  // namespace specdec

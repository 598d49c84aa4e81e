#include "stages/09_self_drafting/feature_model.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr int kAfterBlock[] = {1};  // what the layer hands out

}  // namespace

FeatureModel::FeatureModel(const LlamaModel& target, FeatureLayer layer,
                           std::unique_ptr<KvCache> cache, int token_limit,
                           const Capacity& capacity)
    : target_(target),
      layer_(std::move(layer)),
      cache_(std::move(cache)),
      input_(target, layer_, kPassRows),
      llama_(*layer_.block, *cache_, {.max_pass_rows = kPassRows}),
      own_per_request_(1 + capacity.nodes),
      own_(backend(), std::size_t(capacity.requests) * own_per_request_ * llama_.row_width()),
      projection_(target, layer_.head, token_limit),
      features_(backend()),
      made_(backend()),
      normed_(backend()),
      asked_(backend()) {
  llama_.enter_through(&input_);
}

// [snippet begin-round]
// Looks up the features of all tokens that the layer has not seen. A feature belongs to the token
// before, so the first one that is needed has the place before the first new token.
void FeatureModel::begin(std::span<const DraftRequest> requests) {
  SPECDEC_CHECK(rows_ != nullptr, "rows of the target");
  for (int i = 0; i < int_size(requests); ++i) {
    const DraftRequest& r = requests[i];
    const auto cached = r.context.first(r.context.size() - 1);  // all but the pending token
    State& state = this->state(r.sequence);
    state.request = i;
    state.pending = int_size(cached);
    state.first = std::max(0, length(r.sequence) - 1);
    state.features = rows_->rows(r.target_sequence, cached, state.first);
  }
}
// [end snippet begin-round]

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
  for (const Segment& segment : batch) state(segment.sequence).has_first = true;
}

// The segment without a text's first token. The layer hands out rows for all logits, and for all
// tokens that drafts may follow.
Segment FeatureModel::of_layer(const Segment& segment) const {
  const State& state = states_[segment.sequence];
  const int skipped = state.has_first ? 0 : 1, n = int_size(segment.tokens) - skipped;
  SPECDEC_CHECK(segment.logits_rows <= n && (skipped == 0 || segment.parents.empty()),
                "no logits of a text's first token");
  const int place = llama_.length(segment.sequence) + 1;
  const int own = std::clamp(place + n - state.pending, 0, n);
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
  const int first = llama_.length(segment.sequence) + 1;  // the place of its first token
  const int of_target = std::clamp(state.pending + 1 - first, 0, n);
  if (of_target > 0) {
    take_features(state.features.slice(first - 1 - state.first, of_target),
                  features.slice(0, of_target));
  }
  const int tree = first + n - n_nodes;  // the place of its first node
  for (int i = of_target; i < n; ++i) {
    int parent = first + i - 1;
    if (n_nodes > 0) parent = tree + std::max(-1, segment.parents[n_nodes - n + i]);
    backend().copy(own_row(state, parent).data, features.row(i), features.width * sizeof(float));
  }
}
// [end snippet features]

void FeatureModel::take_features(ConstDeviceRows of_target, DeviceRows features) {
  if (layer_.places.size() > 1) {
    backend().matmul(of_target, *layer_.fc, features);
  } else {
    backend().copy(of_target.data, features.data,
                   std::size_t(features.rows) * features.width * sizeof(float));
  }
}

DeviceRows FeatureModel::own_row(const State& state, int place) const {
  const int i = place - state.pending, width = llama_.row_width();
  SPECDEC_CHECK(0 <= i && i < own_per_request_, "row 0 to {}, not {}", own_per_request_ - 1, i);
  const int rows = static_cast<int>(own_.size()) / width;
  return matrix(own_, rows, width).slice(state.request * own_per_request_ + i, 1);
}

// The rows that the layer makes of batch_, those that it is asked for.
DeviceRows FeatureModel::run_layer() {
  Outputs out;
  int n = 0;
  for (const Segment& segment : batch_) n += segment.hidden.rows;
  out.hidden = made_.rows(n, llama_.row_width());
  out.places = kAfterBlock;
  llama_.forward(batch_, out);
  return out.hidden;
}

// Keeps the rows from the pending token on, which are the features of drafts after them.
void FeatureModel::keep_own(DeviceRows rows) {
  int row = 0;
  for (const Segment& segment : batch_) {
    row += segment.hidden.rows;
    const State& state = this->state(segment.sequence);
    const int end = llama_.length(segment.sequence) + 1;
    const int n = std::clamp(end - state.pending, 0, int_size(segment.tokens));
    if (n == 0) continue;
    own_row(state, end - 1);  // checks that there is room
    backend().copy(rows.row(row - n), own_row(state, end - n).data,
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
  const SequenceId sequence = llama_.create();
  if (sequence >= int_size(states_)) states_.resize(sequence + 1);
  states_[sequence] = {};
  return sequence;
}

SequenceId FeatureModel::fork(SequenceId sequence) {
  const SequenceId result = llama_.fork(sequence);
  if (result >= int_size(states_)) states_.resize(result + 1);
  states_[result] = states_[sequence];
  return result;
}

void FeatureModel::release(SequenceId sequence) { llama_.release(sequence); }

int FeatureModel::length(SequenceId sequence) const {
  return states_[sequence].has_first ? llama_.length(sequence) + 1 : 0;
}

void FeatureModel::truncate(SequenceId sequence, int length) {
  SPECDEC_CHECK(0 <= length && length <= this->length(sequence), "to keep 0 to {} tokens, not {}",
                this->length(sequence), length);
  llama_.truncate(sequence, std::max(0, length - 1));
  if (length == 0) states_[sequence].has_first = false;
}

void FeatureModel::keep(SequenceId sequence, int start, std::span<const int> kept) {
  std::vector<int> of_layer;
  for (const int place : kept) of_layer.push_back(place - 1);
  llama_.keep(sequence, start - 1, of_layer);
}

bool FeatureModel::can_extend(std::span<const Extension> extensions) const {
  std::vector<Extension> of_layer;
  for (const auto& [sequence, tokens] : extensions) {
    of_layer.push_back({sequence, std::max(0, tokens - (length(sequence) == 0 ? 1 : 0))});
  }
  return llama_.can_extend(of_layer);
}

}  // namespace specdec

#include "stages/09_self_drafting/feature_modules.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

FeatureModules::FeatureModules(std::vector<std::unique_ptr<FeatureModel>> modules)
    : modules_(std::move(modules)), logits_(backend()) {
  for (int i = 1; i < int_size(modules_); ++i) modules_[i]->follow(*modules_[i - 1]);
}

void FeatureModules::begin(std::span<const DraftRequest> requests) {
  for (const auto& module : modules_) module->begin(requests);
  for (const DraftRequest& r : requests) pending_[r.sequence] = int_size(r.context) - 1;
}

// How many drafts the row of this token knows.
int FeatureModules::drafts_before(const Segment& segment, int token) const {
  const int n = int_size(segment.tokens), n_nodes = int_size(segment.parents);
  if (n_nodes > 0) return 1 + depth_of(n_nodes - n + token, segment.parents);
  return length(segment.sequence) + token - pending_[segment.sequence];
}

// The module with as many modules before it as a row knows drafts says what comes next. In a chain,
// those before it are done for this round.
void FeatureModules::plan(std::span<const Segment> batch) {
  batch_ = batch;
  module_of_row_.clear();
  first_module_.clear();
  for (const Segment& segment : batch) {
    const int n = int_size(segment.tokens);
    first_module_.push_back(segment.parents.empty() ? std::max(0, drafts_before(segment, 0)) : 0);
    for (int i = n - segment.logits_rows; i < n; ++i) {
      const int module = drafts_before(segment, i);
      SPECDEC_CHECK(0 <= module && module < max_drafts(), "module 0 to {}, not {}",
                    max_drafts() - 1, module);
      module_of_row_.push_back(module);
    }
  }
}

// Each module reads rows that the one before it has just made.
void FeatureModules::forward(std::span<const Segment> batch, const Outputs& out) {
  SPECDEC_CHECK(out.hidden.rows == 0, "no rows handed out");
  plan(batch);
  for (int module = 0; module < max_drafts(); ++module) run(module, out.logits);
}

void FeatureModules::run(int module, DeviceRows logits) {
  fed_.clear();
  std::vector<int> rows;  // of the logits, in the order of the module's
  int row = 0;
  for (int i = 0; i < int_size(batch_); ++i) {
    Segment segment = batch_[i];
    const int first = row;
    row += segment.logits_rows;
    const auto of_segment = std::span(module_of_row_).subspan(first, segment.logits_rows);
    if (std::ranges::find(of_segment, module) == of_segment.end()) segment.logits_rows = 0;
    for (int j = 0; j < segment.logits_rows; ++j) rows.push_back(first + j);
    if (first_module_[i] <= module) fed_.push_back(segment);
  }
  if (fed_.empty()) return;
  const DeviceRows said = logits_.rows(int_size(rows), vocab_size());
  modules_[module]->forward(fed_, said);
  for (int i = 0; i < said.rows; ++i) {
    if (module_of_row_[rows[i]] != module) continue;
    backend().copy(said.row(i), logits.row(rows[i]), std::size_t(said.width) * sizeof(float));
  }
}

SequenceId FeatureModules::create() {
  const SequenceId sequence = modules_.front()->create();
  for (int i = 1; i < int_size(modules_); ++i) {
    const SequenceId same = modules_[i]->create();
    SPECDEC_CHECK(same == sequence, "sequence {}, not {}", sequence, same);
  }
  if (sequence >= int_size(pending_)) pending_.resize(sequence + 1);
  return sequence;
}

SequenceId FeatureModules::fork(SequenceId sequence) {
  SequenceId result = 0;
  for (const auto& module : modules_) result = module->fork(sequence);
  pending_.resize(std::max(result + 1, int_size(pending_)));
  pending_[result] = pending_[sequence];
  return result;
}

void FeatureModules::release(SequenceId sequence) {
  for (const auto& module : modules_) module->release(sequence);
}

void FeatureModules::truncate(SequenceId sequence, int length) {
  for (const auto& module : modules_) {
    module->truncate(sequence, std::min(length, module->length(sequence)));
  }
}

void FeatureModules::keep(SequenceId sequence, int start, std::span<const int> kept) {
  for (const auto& module : modules_) module->keep(sequence, start, kept);
}

bool FeatureModules::can_extend(std::span<const Extension> extensions) const {
  return std::ranges::all_of(modules_,
                             [&](const auto& module) { return module->can_extend(extensions); });
}

}  // namespace specdec

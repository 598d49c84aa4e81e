#include "stages/09_self_drafting/parallel_model.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "stages/09_self_drafting/head_file.h"

namespace specdec {

TokenId read_mask_token(const std::filesystem::path& config, int vocab_size) {
  const Json root = parse_json(read_text_file(config), config.string());
  return mask_token(JsonObject(root, config.string()), vocab_size);
}

ParallelModel::ParallelModel(LanguageModel& draft, TokenId mask, int max_drafts, int max_requests,
                             int max_context)
    : OnePassModel(draft.backend(), draft.vocab_size(), std::vector<TokenId>(max_drafts - 1, mask),
                   max_requests, max_context),
      draft_(draft) {}

// [snippet parallel]
void ParallelModel::begin(std::span<const DraftRequest> requests) {
  pass(draft_, requests);
  for (const DraftRequest& r : requests) {
    draft_.truncate(r.target_sequence, int_size(r.context));  // forgets the masks
  }
}
// [end snippet parallel]

ParallelDrafter::ParallelDrafter(std::unique_ptr<ParallelModel> model,
                                 std::unique_ptr<MarkovModel> corrected,
                                 std::unique_ptr<Drafter> drafter, int max_requests)
    : model_(std::move(model)), drafter_(*model_, std::move(drafter), std::move(corrected)) {
  for (int i = 0; i < max_requests; ++i) places_.push_back(drafter_.create());
  requests_.reserve(max_requests);
}

// The sequences of the model remember nothing from one call to the next.
void ParallelDrafter::draft(std::span<const DraftRequest> requests) {
  SPECDEC_CHECK(requests.size() <= places_.size(), "at most {} requests", places_.size());
  requests_.assign(requests.begin(), requests.end());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests_[i].sequence = places_[i];
    requests_[i].target_sequence = requests[i].sequence;
    drafter_.truncate(places_[i], 0);
  }
  drafter_.draft(requests_);
}

void ParallelDrafter::truncate(SequenceId sequence, int length) {
  if (length < this->length(sequence)) model_->draft().truncate(sequence, length);
}

}  // namespace specdec

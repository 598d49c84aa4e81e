#pragma once
#include <algorithm>
#include <memory>

#include "stages/09_self_drafting/self_model.h"
#include "tests/unit/stages/08_token_trees/tree_law.h"

namespace specdec::law {

// Says at each place of a round what the scenario's draft says after as many tokens 0.
class IgnoresDrafts final : public SelfModel {
 public:
  explicit IgnoresDrafts(const ContextTable& draft)
      : SelfModel(4), backend_(make_plain_backend()), draft_(draft) {}

  void begin(std::span<const DraftRequest> requests) override {
    SPECDEC_CHECK(requests.size() == 1, "one request");
    context_.assign(requests[0].context.begin(), requests[0].context.end());
  }
  int vocab_size() const override { return draft_.vocab_size(); }
  Backend& backend() const override { return *backend_; }

 private:
  void say(SequenceId, int position, float* logits) override {
    Text text = context_;
    text.resize(std::size_t(position) + 1);
    std::ranges::copy(draft_.row(text), logits);
  }

  std::unique_ptr<Backend> backend_;
  const ContextTable& draft_;
  Text context_;
};

// What drafts trees of a shape. REQUIRES: the model outlives the drafters.
inline MakeTrees of_self(SelfModel& model, const MakeTreeShape& shape) {
  return [&model, shape](LanguageModel&) {
    return std::make_shared<SelfDrafter>(
        model, std::make_unique<ModelTreeDrafter>(model, shape, 64, model.vocab_size()));
  };
}

}  // namespace specdec::law

#pragma once
#include <string>

#include "common/base/error.h"

namespace specdec {

// A row of logits that is no distribution, because the weights of its model are damaged. what()
// blames the target, whose rows decide the text. What a draft says can be done without, so where a
// drafter throws this, it is caught, and about() says the rest of the sentence of the draft.
class BadLogits final : public Error {
 public:
  explicit BadLogits(const std::string& about) : Error("the target's " + about), about_(about) {}
  const std::string& about() const { return about_; }

 private:
  std::string about_;
};

}  // namespace specdec

#pragma once
#include <string>

#include "common/base/error.h"

namespace specdec {

// A row of logits is not a distribution, because the weights of its model are damaged. what() names
// the target as the culprit. If a drafter throws this, the text can go on without its drafts: the
// error is caught, and the message is about() with the draft as the culprit.
class BadLogits final : public Error {
 public:
  explicit BadLogits(const std::string& about) : Error("the target's " + about), about_(about) {}
  const std::string& about() const { return about_; }

 private:
  std::string about_;
};

}  // namespace specdec

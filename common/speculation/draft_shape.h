#pragma once
#include "common/speculation/capacity.h"

namespace specdec {

// Used from stage 8 on, where drafts may branch: the shape of the drafts of one request. Drafters
// that draft such shapes know what else it is.
class DraftShape {
 public:
  virtual ~DraftShape() = default;

  virtual int levels() const = 0;  // the largest number of levels
  // The capacity of a round with at most this many levels. REQUIRES: levels <= levels().
  virtual Capacity capacity(int levels) const = 0;
};

}  // namespace specdec

#pragma once
#include <limits>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"

namespace specdec {

// The sequences of a drafter that has two parts. Each sequence is a pair of one sequence per part.
class SequencePairs {
 public:
  struct Pair {
    SequenceId first = 0, second = 0;
  };

  // If one part throws, passes the exception on, and no part keeps a sequence.
  template <typename First, typename Second>
  SequenceId create(First& first, Second& second) {
    Pair pair{first.create(), 0};
    try {
      pair.second = second.create();
    } catch (...) {
      first.release(pair.first);
      throw;
    }
    if (free_.empty()) {
      pairs_.push_back(pair);
      return static_cast<SequenceId>(pairs_.size()) - 1;
    }
    const SequenceId sequence = free_.back();
    free_.pop_back();
    pairs_[sequence] = pair;
    return sequence;
  }

  template <typename First, typename Second>
  void release(SequenceId sequence, First& first, Second& second) {
    first.release((*this)[sequence].first);
    second.release((*this)[sequence].second);
    free_.push_back(sequence);
  }

  // Lets a part cache these chunks of contexts if it caches contexts. Until the first drafts, all
  // parts that do have cached equally much. The chunks name the pairs.
  void prefill(std::span<const Segment> chunks, SequenceId Pair::*of_part, Drafter& part) const {
    std::vector<Segment> own;
    for (Segment chunk : chunks) {
      chunk.sequence = (*this)[chunk.sequence].*of_part;
      const bool caches = part.uncached_before(chunk.sequence, std::numeric_limits<int>::max()) > 0;
      const auto end = part.length(chunk.sequence) + std::ssize(chunk.tokens);
      if (caches && end <= part.context_limit()) own.push_back(chunk);
    }
    if (!own.empty()) part.prefill(own);
  }

  const Pair& operator[](SequenceId sequence) const { return pairs_[sequence]; }

 private:
  std::vector<Pair> pairs_;
  std::vector<SequenceId> free_;
};

}  // namespace specdec

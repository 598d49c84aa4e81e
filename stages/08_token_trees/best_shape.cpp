#include "stages/08_token_trees/best_shape.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

std::span<const double> ranks_at(const AcceptanceByRank& acceptance, int level) {
  return acceptance[std::min(static_cast<std::size_t>(level), acceptance.size() - 1)];
}

// Tables over (level, rank, nodes): the largest expected number of accepted tokens that `nodes`
// nodes add, if they are the children of one node from `rank` on, at `level`, and their subtrees.
class BestPlan {
 public:
  BestPlan(const AcceptanceByRank& acceptance, int nodes, int levels)
      : acceptance_(acceptance), nodes_(nodes), levels_(levels) {
    for (const auto& row : acceptance) ranks_ = std::max(ranks_, int_size(row));
    const auto cells = static_cast<std::size_t>((levels_ + 1) * (ranks_ + 1) * (nodes_ + 1));
    best_.resize(cells);
    subtree_.resize(cells);
    for (int level = levels_ - 1; level >= 0; level--) {
      const auto ranks = static_cast<int>(ranks_at(acceptance, level).size());
      for (int rank = ranks - 1; rank >= 0; rank--) fill(level, rank);
    }
  }

  Likeliest::Plan plan() const {
    Likeliest::Plan plan(1);
    add_children(plan, 0, 0, nodes_);
    return plan;
  }

 private:
  std::size_t cell(int level, int rank, int nodes) const {
    return static_cast<std::size_t>((level * (ranks_ + 1) + rank) * (nodes_ + 1) + nodes);
  }

  // [snippet best-shape]
  // The child of this rank gets a subtree of `size` nodes, including itself; the later ranks and
  // their subtrees share the rest. A child gets no node only if it and all later ranks add nothing.
  void fill(int level, int rank) {
    // [task 8.7: fill the table]
    const double probability = ranks_at(acceptance_, level)[rank];
    for (int nodes = 1; nodes <= nodes_; nodes++) {
      double best = 0;
      int best_size = 0;
      for (int size = 1; size <= nodes; size++) {
        const double value = probability * (1 + best_[cell(level + 1, 0, size - 1)]) +
                             best_[cell(level, rank + 1, nodes - size)];
        if (value > best) {
          best = value;
          best_size = size;
        }
      }
      best_[cell(level, rank, nodes)] = best;
      subtree_[cell(level, rank, nodes)] = best_size;
    }
    // [end task 8.7]
  }
  // [end snippet best-shape]

  void add_children(Likeliest::Plan& plan, std::size_t parent, int level, int nodes) const {
    for (int rank = 0; level < levels_ && nodes > 0; rank++) {
      const int size = subtree_[cell(level, rank, nodes)];
      if (size == 0) return;
      const std::size_t child = plan.size();
      plan.emplace_back();
      plan[parent].children.push_back(static_cast<int>(child));
      add_children(plan, child, level + 1, size - 1);
      nodes -= size;
    }
  }

  const AcceptanceByRank& acceptance_;
  int nodes_, levels_, ranks_ = 0;
  std::vector<double> best_;
  std::vector<int> subtree_;
};

double accepted_below(const Likeliest::Plan& plan, std::size_t node,
                      const AcceptanceByRank& acceptance, int level) {
  const auto ranks = ranks_at(acceptance, level);
  double sum = 0;
  const auto& children = plan[node].children;
  for (std::size_t rank = 0; rank < std::min(children.size(), ranks.size()); rank++) {
    sum += ranks[rank] * (1 + accepted_below(plan, static_cast<std::size_t>(children[rank]),
                                             acceptance, level + 1));
  }
  return sum;
}

}  // namespace

double expected_accepted(const Likeliest::Plan& plan, const AcceptanceByRank& acceptance) {
  return accepted_below(plan, 0, acceptance, 0);
}

Likeliest::Plan best_plan(const AcceptanceByRank& acceptance, int nodes, int levels) {
  SPECDEC_CHECK(nodes >= 1 && levels >= 1 && !acceptance.empty(), "a node, a level and a row");
  for (const auto& row : acceptance) {
    SPECDEC_CHECK(!row.empty() && std::ranges::min(row) >= 0, "rows of probabilities");
  }
  return BestPlan(acceptance, nodes, levels).plan();
}

}  // namespace specdec

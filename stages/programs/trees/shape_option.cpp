#include "stages/programs/trees/shape_option.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

#include "common/base/error.h"
#include "kernels/int_size.h"
#include "stages/08_token_trees/best_shape.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {
namespace {

// The parsed value of --tree.
struct TreeOption {
  TreeKind kind;
  std::vector<int> sizes;  // at least one

  bool is_one_chain() const { return kind == TreeKind::kChains && sizes[0] == 1; }
};

// Formats a value of --tree, such as "chains:1".
std::string with_sizes(TreeKind kind, std::string_view sizes) {
  return fmt::format("{}:{}", name_of(kind), sizes);
}

[[noreturn]] void no_shape(const std::string& shape) {
  std::string shapes;
  for (const NamedTree& tree : kTrees) shapes += fmt::format("{}:{}, ", tree.name, tree.sizes);
  fail("--tree {}: no such shape; there are {}with numbers from 1 to {}", shape, shapes,
       kMostNodes);
}

// Parses "3x2x1" or a single number.
std::vector<int> numbers(const std::string& shape, std::string_view text) {
  std::vector<int> result;
  while (true) {
    const std::size_t end = text.find('x');
    const std::string_view digits = text.substr(0, end);
    int number = 0;
    const auto [rest, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || rest != digits.data() + digits.size()) no_shape(shape);
    if (number < 1 || number > kMostNodes) no_shape(shape);
    result.push_back(number);
    if (end == std::string_view::npos) return result;
    text.remove_prefix(end + 1);
  }
}

TreeOption parse_tree(const std::string& shape) {
  const std::size_t colon = shape.find(':');
  const auto kind = find_choice<TreeKind>(std::string_view(shape).substr(0, colon));
  if (!kind || colon == std::string::npos) no_shape(shape);
  const TreeOption tree{*kind, numbers(shape, std::string_view(shape).substr(colon + 1))};
  if (!entry_of(*kind).of_widths() && tree.sizes.size() != 1) no_shape(shape);
  return tree;
}

// Throws Error for too many nodes. Adds level by level, because the product may be huge.
void check_size(const std::string& shape, const std::vector<int>& widths) {
  std::int64_t level = 1, nodes = 0;
  for (const int width : widths) {
    level *= width;
    nodes += level;
    if (nodes > kMostNodes) {
      fail("--tree {}: more than {} nodes, as many as a pass has rows for; use smaller widths",
           shape, kMostNodes);
    }
  }
  if (std::ssize(widths) > kSpecLengths.highest) {
    fail("--tree {}: at most {} levels", shape, kSpecLengths.highest);
  }
}

MakeTreeShape chains(const std::string& shape, int count, int levels) {
  check_size(shape, {count * levels});
  return [=] { return std::make_unique<Chains>(count, levels); };
}

MakeTreeShape best(const std::string& shape, int nodes, int levels,
                   const AcceptanceByRank& acceptance) {
  const Likeliest::Plan plan = best_plan(acceptance, nodes, levels);
  if (plan.size() == 1) fail("--tree {}: by its profile, no draft is ever accepted", shape);
  return [=] { return std::make_unique<Likeliest>(plan); };
}

// --tree-profile is for best:N, unless this run adds to it; --write-tree-profile is for top:WIDTHS.
void check_profile_options(const RunOptions& options) {
  const bool reads = !options.tree_profile.empty(), writes = !options.write_tree_profile.empty();
  const TreeKind kind = parse_tree(options.tree).kind;
  if (writes && kind != TreeKind::kTop) {
    fail(
        "--write-tree-profile counts with --tree {}, which tries as many tokens everywhere on a "
        "level",
        with_sizes(TreeKind::kTop, "WIDTHS"));
  }
  if (reads && !writes && kind != TreeKind::kBest) {
    fail("--tree-profile is for --tree {}; --tree {} does not use it",
         with_sizes(TreeKind::kBest, "N"), options.tree);
  }
  if ((reads || writes) && drafts_are_certain(options.draft_kind)) {
    fail("{} is about a draft model's ranks, and --draft-kind {} has none",
         reads ? "--tree-profile" : "--write-tree-profile", name_of(options.draft_kind));
  }
}

// Throws Error if the drafter can draft a chain only, and the tree is not one.
void check_drafter(const RunOptions& options, const TreeOption& tree) {
  if (tree.is_one_chain()) return;
  const std::string chain = with_sizes(TreeKind::kChains, "1");
  if (options.given_rows)
    fail("--rows gives rows to the drafts of one chain: use --tree {}", chain);
  if (options.fallback.empty() && !entry_of(options.draft_kind).branches) {
    fail("--draft-kind {} drafts one chain: use --tree {}", name_of(options.draft_kind), chain);
  }
  if (options.fallback.empty() && options.draft_kind == DraftKind::kSuffix &&
      tree.kind != TreeKind::kGrow) {
    fail("--draft-kind {} grows trees of its own: use --tree {}, or {} for a chain",
         name_of(options.draft_kind), with_sizes(TreeKind::kGrow, "N"), chain);
  }
  if (!options.draft_of_draft.empty()) {
    fail("--draft-of-draft drafts one chain: use --tree {}", chain);
  }
}

int n_drafts(const RunOptions& options) { return 1 + int_size(options.other_drafts); }

// Throws Error if --draft is given several times, and something else drafts or judges one draft.
void check_several(const RunOptions& options, const TreeOption& tree,
                   const NamedSiblingRule& rule) {
  const int n = n_drafts(options);
  if (n == 1) return;
  const auto refuse = [n](std::string_view why) { fail("--draft is given {} times: {}", n, why); };
  if (options.draft_kind != DraftKind::kLlama || !options.fallback.empty() ||
      !options.draft_of_draft.empty()) {
    refuse("no other drafter drafts beside them");
  }
  if (tree.kind != TreeKind::kChains || tree.sizes[0] < n) {
    refuse(fmt::format("each drafts chains of its own, so use --tree {}",
                       with_sizes(TreeKind::kChains, std::to_string(n))));
  }
  if (rule.needs_same_draws) {
    refuse(
        fmt::format("--siblings {} needs drafts that are drawn from one distribution", rule.name));
  }
  if (draft_length_of(options) != DraftLength::kFixed) {
    refuse("K is fixed, because costs are measured for one draft");
  }
  if (options.draft_pages > 0) refuse("--draft-pages is for one; each has its own");
}

// Throws Error if the rule for siblings does not fit the drafts.
void check_rule(const RunOptions& options, const TreeOption& tree, const NamedSiblingRule& rule) {
  if (options.lenience < 1 && rule.rule != rejection_chain) {
    fail("--lenience belongs to --siblings {}, not to {}", sibling_rules().front().name, rule.name);
  }
  if (!options.fallback.empty() && rule.needs_same_draws) {
    fail("--siblings {} needs drafts that are drawn, and with --fallback some may be copied",
         rule.name);
  }
  if (rule.rule == nullptr && !tree.is_one_chain()) {
    fail("--siblings {} judges one chain as a whole: use --tree {}", rule.name,
         with_sizes(TreeKind::kChains, "1"));
  }
  if (rule.needs_same_draws && tree.kind != TreeKind::kChains) {
    fail(
        "--tree {}: --siblings {} needs drafts that are drawn from one distribution: use --tree {}",
        options.tree, rule.name, with_sizes(TreeKind::kChains, "N"));
  }
  if (drafts_are_certain(options.draft_kind) && rule.needs_same_draws) {
    fail("--siblings {} needs drafts that are drawn, and --draft-kind {} draws none", rule.name,
         name_of(options.draft_kind));
  }
}

}  // namespace

MakeTreeShape tree_shape(const std::string& shape, int spec_length,
                         const AcceptanceByRank& acceptance) {
  const TreeOption tree = parse_tree(shape);
  const std::vector<int>& sizes = tree.sizes;
  check_size(shape, sizes);
  const int n = sizes[0];
  switch (tree.kind) {
    case TreeKind::kChains:
      return chains(shape, n, spec_length);
    case TreeKind::kDistinct:
      return [=] { return std::make_unique<DistinctDrafts>(sizes); };
    case TreeKind::kTop:
      return [=] { return std::make_unique<Likeliest>(plan_of_widths(sizes)); };
    case TreeKind::kBest:
      return best(shape, n, spec_length, acceptance);
    case TreeKind::kGrow:
      return [=] { return std::make_unique<GrownTree>(n, (n + 3) / 4, spec_length); };
  }
  no_shape(shape);
}

std::vector<MakeTreeShape> shapes_of_drafts(const RunOptions& options, const MakeTreeShape& tree) {
  const int n = n_drafts(options);
  if (n == 1) return {tree};
  std::vector<MakeTreeShape> shapes;
  const int N = parse_tree(options.tree).sizes[0], levels = tree()->levels();
  for (int k = 0; k < n; k++) shapes.push_back(chains(options.tree, (N - k + n - 1) / n, levels));
  return shapes;
}

bool is_one_chain(const std::string& shape) { return parse_tree(shape).is_one_chain(); }

AcceptanceByRank embedded_acceptance() {
  return {{.820, .048, .013, .006, .006, .008, .005, .006},
          {.835, .047, .019, .007},
          {.865, .051, .019},
          {.909}};
}

const NamedSiblingRule& sibling_rule_of(const RunOptions& options) {
  if (options.acceptance.empty()) {
    return options.siblings.empty() ? sibling_rules().front() : find_sibling_rule(options.siblings);
  }
  if (!options.siblings.empty() && options.siblings != options.acceptance) {
    fail("--acceptance {} and --siblings {}: give one of them", options.acceptance,
         options.siblings);
  }
  return find_sibling_rule(options.acceptance, "--acceptance");
}

bool is_greedy(const RunOptions& options) {
  return options.lenience == 1 && options.sampling.temperature == 0 &&
         options.sampling.repetition_penalty == 1 && options.draft_temperature.value_or(0) == 0;
}

void check_tree(const RunOptions& options) {
  static_cast<void>(tree_shape(options.tree, largest_spec_length(options)));
  const TreeOption tree = parse_tree(options.tree);
  check_drafter(options, tree);
  check_rule(options, tree, sibling_rule_of(options));
  check_several(options, tree, sibling_rule_of(options));
}

void check_tree_options(const RunOptions& options) {
  check_tree(options);
  check_profile_options(options);
}

void check_drafts_differ(const RunOptions& options) {
  const auto shape = tree_shape(options.tree, largest_spec_length(options))();
  const Capacity capacity = shape->capacity(shape->levels());
  const double draft_temperature = options.draft_temperature.value_or(options.sampling.temperature);
  const bool draws = !options.no_speculation && !drafts_are_certain(options.draft_kind);
  const int n = n_drafts(options);
  if (draws && n > 1 && draft_temperature == 0 && capacity.trials > n * capacity.levels) {
    fail("--tree {} at --draft-temperature 0: all chains of a draft would be the same; use {}",
         options.tree, with_sizes(TreeKind::kChains, std::to_string(n)));
  }
  if (draws && n == 1 && shape->draws() && draft_temperature == 0 &&
      capacity.trials > capacity.levels) {
    fail("--tree {} at --draft-temperature 0: all drafts would be the same; use {}", options.tree,
         names_where(kTrees, " or ", [](const NamedTree& tree) { return !tree.draws; }));
  }
}

}  // namespace specdec

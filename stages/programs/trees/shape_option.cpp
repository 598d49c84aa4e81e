#include "stages/programs/trees/shape_option.h"

#include <charconv>

#include <fmt/format.h>

#include "common/base/error.h"
#include "stages/08_token_trees/best_shape.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {
namespace {

[[noreturn]] void no_shape(const std::string& shape) {
  fail(
      "--tree {}: no such shape; there are chains:N, best:N and grow:N with N from 1 to {}, and "
      "distinct:3x2x1 and top:3x2x1 with a width from 1 on for each level",
      shape, kMostNodes);
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

bool drafts_one_chain(DraftKind kind) {
  return kind == DraftKind::kRandom || kind == DraftKind::kNgram;
}

// --tree-profile is for best:N, unless this run adds to it; --write-tree-profile is for top:WIDTHS.
void check_profile_options(const RunOptions& options) {
  const bool reads = !options.tree_profile.empty(), writes = !options.write_tree_profile.empty();
  if (writes && !options.tree.starts_with("top:")) {
    fail(
        "--write-tree-profile counts with --tree top:WIDTHS, which tries as many tokens everywhere"
        " on a level");
  }
  if (reads && !writes && !options.tree.starts_with("best:")) {
    fail("--tree-profile is for --tree best:N; --tree {} does not use it", options.tree);
  }
  if ((reads || writes) && options.draft_kind == DraftKind::kLookup) {
    fail("{} is about a draft model's ranks, and --draft-kind lookup has none",
         reads ? "--tree-profile" : "--write-tree-profile");
  }
}

}  // namespace

MakeTreeShape tree_shape(const std::string& shape, int spec_length,
                         const AcceptanceByRank& acceptance) {
  const std::size_t colon = shape.find(':');
  if (colon == std::string::npos) no_shape(shape);
  const std::string kind = shape.substr(0, colon);
  const std::vector<int> sizes = numbers(shape, std::string_view(shape).substr(colon + 1));
  if (kind == "distinct" || kind == "top") {
    check_size(shape, sizes);
    if (std::ssize(sizes) > kSpecLengths.highest) {
      fail("--tree {}: at most {} levels", shape, kSpecLengths.highest);
    }
    if (kind == "top") {
      return [=] { return std::make_unique<Likeliest>(plan_of_widths(sizes)); };
    }
    return [=] { return std::make_unique<DistinctDrafts>(sizes); };
  }
  if (sizes.size() != 1) no_shape(shape);
  const int n = sizes[0];
  if (kind == "chains") return chains(shape, n, spec_length);
  if (kind == "best") return best(shape, n, spec_length, acceptance);
  if (kind == "grow") {
    return [=] { return std::make_unique<GrownTree>(n, (n + 3) / 4, spec_length); };
  }
  no_shape(shape);
}

AcceptanceByRank embedded_acceptance() {
  return {{.820, .048, .013, .006, .006, .008, .005, .006},
          {.835, .047, .019, .007},
          {.865, .051, .019},
          {.909}};
}

const NamedSiblingRule& sibling_rule_of(const RunOptions& options) {
  const RunOptions defaults;
  if (options.acceptance == defaults.acceptance) return find_sibling_rule(options.siblings);
  if (options.siblings != defaults.siblings && options.siblings != options.acceptance) {
    fail("--acceptance {} and --siblings {}: give one of them", options.acceptance,
         options.siblings);
  }
  return find_sibling_rule(options.acceptance, "--acceptance");
}

bool is_greedy(const RunOptions& options) {
  return options.lenience == 1 && options.sampling.temperature == 0 &&
         options.sampling.repetition_penalty == 1 && options.draft_temperature.value_or(0) == 0;
}

void check_tree_options(const RunOptions& options) {
  const NamedSiblingRule& rule = sibling_rule_of(options);
  static_cast<void>(tree_shape(options.tree, largest_spec_length(options)));
  const bool one_chain = options.tree == "chains:1";
  const bool by_fallback = !options.fallback.empty();
  if (!one_chain && !by_fallback && drafts_one_chain(options.draft_kind)) {
    fail("--draft-kind {} drafts one chain: use --tree chains:1", name_of(options.draft_kind));
  }
  if (!one_chain && !options.draft_of_draft.empty()) {
    fail("--draft-of-draft drafts one chain: use --tree chains:1");
  }
  if (options.lenience < 1 && rule.rule != rejection_chain) {
    fail("--lenience belongs to --siblings rejection, not to {}", rule.name);
  }
  if (by_fallback && rule.needs_same_draws) {
    fail("--siblings {} needs drafts that are drawn, and with --fallback some may be copied",
         rule.name);
  }
  if (rule.rule == nullptr && options.tree != "chains:1") {
    fail("--siblings {} judges one chain as a whole: use --tree chains:1", rule.name);
  }
  if (rule.needs_same_draws && !options.tree.starts_with("chains:")) {
    fail("--siblings {} needs drafts that are drawn from one distribution: use --tree chains:N",
         rule.name);
  }
  if (options.draft_kind == DraftKind::kLookup && rule.needs_same_draws) {
    fail("--siblings {} needs drafts that are drawn, and --draft-kind lookup draws none",
         rule.name);
  }
  check_profile_options(options);
}

void check_drafts_differ(const RunOptions& options) {
  const auto shape = tree_shape(options.tree, largest_spec_length(options))();
  const Capacity capacity = shape->capacity(shape->levels());
  const double draft_temperature = options.draft_temperature.value_or(options.sampling.temperature);
  const bool draws = !options.no_speculation && options.draft_kind != DraftKind::kLookup;
  if (draws && shape->draws() && draft_temperature == 0 && capacity.trials > capacity.levels) {
    fail("--tree {} at --draft-temperature 0: all drafts would be the same; use top, best or grow",
         options.tree);
  }
}

}  // namespace specdec

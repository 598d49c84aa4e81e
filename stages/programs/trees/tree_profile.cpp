#include "stages/programs/trees/tree_profile.h"

#include <algorithm>
#include <filesystem>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/output_file.h"
#include "common/base/streams.h"
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/trees/shape_option.h"

namespace specdec {
namespace {

constexpr std::string_view kFormat = "specdec-tree-profile-1";

std::int64_t whole_number(const Json& value, const std::string& what, int least) {
  const auto number = as_int(value);
  if (!number || *number < least) {
    fail("{} is {}; it must be a whole number from {} on", what, excerpt(value), least);
  }
  return *number;
}

TreeProfile::Level parse_level(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  const Json* places = object.find("places");
  if (places == nullptr) object.fail_missing("places");
  TreeProfile::Level level;
  level.places = whole_number(*places, name + ": places", 1);
  const Json& accepted = object.required_list("accepted");
  if (accepted.empty() || accepted.size() > kMostNodes) {
    object.fail_type("accepted", fmt::format("a list of 1 to {} numbers", kMostNodes));
  }
  std::int64_t sum = 0;
  for (const Json& count : accepted) {
    const auto what = fmt::format("{}: accepted[{}]", name, level.accepted.size());
    level.accepted.push_back(whole_number(count, what, 0));
    sum += level.accepted.back();
  }
  if (sum > level.places) {
    fail("{}: accepted adds up to {}, but only one draft is accepted at each of {} places", name,
         sum, level.places);
  }
  return level;
}

// What acceptance rates depend on: both models, the rule for siblings and the sampling options.
Json key_of(const RunOptions& options) {
  const auto folder = [](const std::string& path) {
    return std::filesystem::weakly_canonical(path).filename().string();
  };
  const SamplingOptions& sampling = options.sampling;
  const bool drafts_by_model = options.draft_kind == DraftKind::kLlama;
  return {{"target", folder(options.target)},
          {"draft", drafts_by_model ? folder(options.draft) : name_of(options.draft_kind)},
          {"siblings", is_greedy(options) ? "greedy" : sibling_rule_of(options).name},
          {"temperature", sampling.temperature},
          {"draft_temperature", options.draft_temperature.value_or(sampling.temperature)},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"repetition_penalty", sampling.repetition_penalty}};
}

}  // namespace

std::size_t rank_of(const Drafts& tree, int node) {
  const auto siblings = tree.trials(tree.node(node).parent);
  const auto found = std::ranges::find(siblings, node, &Drafts::Trial::node);
  return static_cast<std::size_t>(found - siblings.begin());
}

void TreeProfile::count(const Drafts& tree, const Round& round) {
  int node = Drafts::kRoot;
  for (std::size_t level = 0; level < round.tested_at.size(); level++) {
    if (levels.size() == level) levels.emplace_back();
    auto& [places, accepted] = levels[level];
    places++;
    accepted.resize(std::max(accepted.size(), tree.trials(node).size()));
    if (level == round.path.size()) return;  // all drafts on this level were rejected
    node = round.path[level];
    accepted[rank_of(tree, node)]++;
  }
}

AcceptanceByRank TreeProfile::acceptance() const {
  AcceptanceByRank rows;
  for (const Level& level : levels) {
    std::vector<double>& row = rows.emplace_back();
    for (const std::int64_t accepted : level.accepted) {
      row.push_back(static_cast<double>(accepted) / static_cast<double>(level.places));
    }
  }
  return rows;
}

Json to_json(const TreeProfile& profile) {
  Json levels = Json::array();
  for (const TreeProfile::Level& level : profile.levels) {
    levels.push_back({{"places", level.places}, {"accepted", level.accepted}});
  }
  return {{"format", kFormat}, {"measured_for", profile.measured_for}, {"levels", levels}};
}

TreeProfile parse_tree_profile(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonObject object(json, name);
  if (object.string("format").value_or("") != kFormat) {
    fail("{}: no tree profile: its format is not \"{}\"", name, kFormat);
  }
  const Json& levels = object.required_list("levels");
  if (levels.empty() || levels.size() > static_cast<std::size_t>(kSpecLengths.highest)) {
    object.fail_type("levels", fmt::format("a list of 1 to {} levels", kSpecLengths.highest));
  }
  const auto key = object.object("measured_for");
  TreeProfile profile{key ? *object.find("measured_for") : Json()};
  for (const Json& level : levels) {
    profile.levels.push_back(
        parse_level(level, fmt::format("{}: levels[{}]", name, profile.levels.size())));
  }
  return profile;
}

TreeProfile read_tree_profile(const RunOptions& options) {
  const std::string& path = options.tree_profile;
  const Json key = key_of(options);
  if (path.empty()) return {key};
  TreeProfile profile = parse_tree_profile(read_text_file(path), path);
  const Json& measured_for = profile.measured_for;
  if (measured_for.is_null() || measured_for == key) return profile;
  const std::string other = difference(measured_for, key);
  if (!options.write_tree_profile.empty()) {
    fail("--tree-profile {} was measured for {}, so the counts of this run cannot be added", path,
         other);
  }
  say("{}: note: {} was measured for {}\n", stage_name(options.stage), path, other);
  return profile;
}

MakeTreeShape shape_of(const RunOptions& options, const TreeProfile& profile) {
  return tree_shape(options.tree, largest_spec_length(options),
                    profile.levels.empty() ? embedded_acceptance() : profile.acceptance());
}

void write_tree_profile(const TreeProfile& profile, const std::string& path) {
  if (profile.levels.empty()) {
    fail("--write-tree-profile {}: no draft was tested, so there is nothing to write", path);
  }
  write_file(path, to_json(profile).dump(2) + "\n");
}

}  // namespace specdec

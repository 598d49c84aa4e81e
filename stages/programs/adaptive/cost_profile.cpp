#include "stages/programs/adaptive/cost_profile.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/fnv1a.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/message.h"
#include "common/base/output_file.h"
#include "common/run_stats.h"
#include "kernels/int_size.h"
#include "stages/programs/run/option.h"

namespace specdec {
namespace {

constexpr std::string_view kFormat = "specdec-cost-profile-1";
constexpr int kMostRows = 1 << 20;
constexpr std::size_t kMostPasses = 33;  // the largest K of --spec-length, plus 1

double seconds(const Json& value, const std::string& what, double least) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(std::isfinite(number) && number >= least)) {
    fail("{} is {}; it must be a number of seconds", what, excerpt(value));
  }
  return number;
}

Json to_json(std::span<const CostCurve::Point> points) {
  Json json = Json::array();
  for (const auto& [rows, seconds] : points) json.push_back({rows, seconds});
  return json;
}

// A list of pairs: numbers of rows or requests, which ascend from 1 on, and seconds.
std::vector<CostCurve::Point> read_points(const JsonObject& object, const std::string& field,
                                          const std::string& name) {
  const Json* list = object.find(field);
  if (list == nullptr) object.fail_missing(field);
  std::vector<CostCurve::Point> points;
  for (const Json& pair : list->is_array() ? *list : Json::array()) {
    const auto what = fmt::format("{}: {}[{}]", name, field, points.size());
    const int before = points.empty() ? 0 : points.back().rows;
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer();
    const auto rows = is_pair ? pair[0].get<std::int64_t>() : 0;
    if (rows <= before || rows > kMostRows) {
      fail("{} is {}; it must be a pair of rows, more than {}, and seconds", what, excerpt(pair),
           before);
    }
    points.push_back({static_cast<int>(rows), seconds(pair[1], what, 1e-12)});
  }
  if (points.empty() || points[0].rows != 1) {
    object.fail_type(field, "a list of pairs that begins with one row");
  }
  return points;
}

void write(const std::filesystem::path& path, const CostProfile& profile) {
  write_file(path, to_json(profile).dump(2) + "\n");
}

}  // namespace

std::string difference(const Json& measured, const Json& wanted) {
  if (!measured.is_object()) return "an unknown machine";
  for (const auto& [field, value] : wanted.items()) {
    const Json other = measured.value(field, Json());
    if (other != value) return fmt::format("{} {}, here {}", field, other.dump(), value.dump());
  }
  return "something else";
}

double CostProfile::v(int rows) const {
  const auto measured = int_size(target_pass);
  const auto pass = [&](int n) { return target_pass[static_cast<std::size_t>(n) - 1]; };
  if (rows <= measured) return pass(rows) / target_pass[0];
  const int half = (measured + 1) / 2;
  const double of_a_row = (pass(measured) - pass(half)) / std::max(1, measured - half);
  return (pass(measured) + (rows - measured) * of_a_row) / target_pass[0];
}

std::vector<double> CostProfile::round_costs(int spec_length, const RoundCapacity& capacity) const {
  std::vector<double> costs;
  for (int K = 0; K <= std::min(spec_length, largest_spec_length()); K++) {
    const double once = K > 0 ? draft_round / target_pass[0] : 0;
    costs.push_back(K * c() + once + v(capacity(K).rows()));
  }
  return costs;
}

CostProfile make_profile(const Json& key, std::vector<double> target_pass, double draft_step,
                         double draft_round) {
  SPECDEC_CHECK(!target_pass.empty() && draft_step >= 0 && draft_round >= 0,
                "seconds of passes and drafts");
  target_pass = isotonic(target_pass);
  SPECDEC_CHECK(target_pass[0] > 0, "a pass to take time");
  return {key.dump(), std::move(target_pass), draft_step, draft_round};
}

Json to_json(const CostProfile& profile) {
  Json json = {{"format", kFormat},
               {"measured_for", Json::parse(profile.key)},
               {"target_pass_seconds", profile.target_pass},
               {"draft_step_seconds", profile.draft_step},
               {"draft_round_seconds", profile.draft_round}};
  if (profile.has_rows()) {
    json["passes_by_rows"] = to_json(profile.passes_by_rows);
    json["first_drafts_by_requests"] = to_json(profile.first_drafts_by_requests);
    json["next_drafts_by_requests"] = to_json(profile.next_drafts_by_requests);
  }
  return json;
}

CostProfile parse_profile(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonObject object(json, name);
  if (object.string("format").value_or("") != kFormat) {
    fail("{}: no cost profile: its format is not \"{}\"", name, kFormat);
  }
  const Json* passes = object.find("target_pass_seconds");
  if (passes == nullptr) object.fail_missing("target_pass_seconds");
  if (!passes->is_array() || passes->size() < 2 || passes->size() > kMostPasses) {
    object.fail_type("target_pass_seconds", "a list of 2 to 33 numbers");
  }
  std::vector<double> target_pass;
  for (const Json& pass : *passes) {
    const auto what = fmt::format("{}: target_pass_seconds[{}]", name, target_pass.size());
    target_pass.push_back(seconds(pass, what, 1e-12));
  }
  const Json* draft_step = object.find("draft_step_seconds");
  if (draft_step == nullptr) object.fail_missing("draft_step_seconds");
  const Json* draft_round = object.find("draft_round_seconds");
  const auto key = object.object("measured_for");
  CostProfile profile =
      make_profile(key ? *object.find("measured_for") : Json(), std::move(target_pass),
                   seconds(*draft_step, name + ": draft_step_seconds", 0),
                   draft_round ? seconds(*draft_round, name + ": draft_round_seconds", 0) : 0);
  if (object.find("passes_by_rows") != nullptr) {
    profile.passes_by_rows = read_points(object, "passes_by_rows", name);
    profile.first_drafts_by_requests = read_points(object, "first_drafts_by_requests", name);
    profile.next_drafts_by_requests = read_points(object, "next_drafts_by_requests", name);
  }
  profile.source = name;
  return profile;
}

ProfileFile profile_file(const std::string& cost_profile, const Json& key) {
  if (!cost_profile.empty()) return {cost_profile, true};
  const auto programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return {programs.parent_path() / "profiles" / fmt::format("{:016x}.json", fnv1a(key.dump()))};
}

namespace {

using Say = std::function<void(const std::string&)>;

// The profile in the file, if it was measured for this key, or for any key if the file is named.
std::optional<CostProfile> read_profile(const ProfileFile& file, const Json& key, const Say& note) {
  const std::string name = file.path.string();
  try {
    if (!std::filesystem::exists(file.path)) return std::nullopt;
    CostProfile profile = parse_profile(read_text_file(file.path), name);
    const auto measured_for = Json::parse(profile.key);
    if (measured_for == key) return profile;
    const std::string other = difference(measured_for, key);
    if (!file.named) {
      note(fmt::format("{} was measured for {}; it is measured anew", name, other));
      return std::nullopt;
    }
    if (!measured_for.is_null()) note(fmt::format("{} was measured for {}", name, other));
    return profile;
  } catch (const std::exception& error) {  // an Error, or what the system says of the path
    if (file.named) throw;
    note(fmt::format("{}; it is measured anew", message_of(error)));
    return std::nullopt;
  }
}

// Stores the profile next to the programs. Does not write to anything but a regular file, because a
// pipe would wait for a reader.
void keep(const std::filesystem::path& path, const CostProfile& profile) {
  std::filesystem::create_directories(path.parent_path());
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) {
    fail("{}: is not a regular file", path.string());
  }
  write(path, profile);
}

}  // namespace

CostProfile stored_profile(const ProfileFile& file, const Json& key,
                           const std::function<CostProfile()>& measure, const Say& note) {
  if (std::optional<CostProfile> profile = read_profile(file, key, note)) return *profile;
  if (file.named) OutputFile::require_writable(file.path);
  CostProfile profile = measure();
  profile.source = fmt::format("measured now, kept in {}", file.path.string());
  if (file.named) {
    write(file.path, profile);
    return profile;
  }
  try {
    keep(file.path, profile);
  } catch (const std::exception& error) {
    profile.source = "measured now, not kept";
    note(fmt::format("the cost profile is not kept: {}", message_of(error)));
  }
  return profile;
}

namespace {

std::string costs(const CostProfile& profile) {
  std::string text = fmt::format("c {:.3f}", profile.c());
  if (profile.draft_round > 0) {
    text += fmt::format(" and {:.3f} per round", profile.draft_round / profile.target_pass[0]);
  }
  const int last = profile.largest_spec_length() + 1;
  for (const int rows : {2, 6, last}) {
    if (rows < last || rows == last) text += fmt::format(", v({}) {:.2f}", rows, profile.v(rows));
  }
  return fmt::format("{} ({})", text, profile.source);
}

std::string rounds_by_K(std::string_view name, const RunStats& stats) {
  std::string text = fmt::format("{}: rounds by K:", name);
  for (std::size_t K = 0; K < stats.rounds_by_drafted.size(); K++) {
    if (stats.rounds_by_drafted[K] == 0) continue;
    text += fmt::format(" {} x {},", stats.rounds_by_drafted[K], K);
  }
  text.back() = '\n';
  return text;
}

}  // namespace

std::string announcement(const CostProfile& profile, const AdaptiveSpecLength& policy) {
  std::string text = fmt::format("{}: {}; first K {}\n", kAuto, costs(profile), policy.next());
  if (!policy.can_pay()) {
    text += "speculation cannot pay here, whatever is accepted: no round emits what it costs\n";
  }
  return text;
}

std::string announcement(const CostProfile& profile, std::string_view name, int largest) {
  return fmt::format("{}: {}; K up to {}\n", name, costs(profile), largest);
}

std::string summary(const AdaptiveSpecLength& policy, const RunStats& stats) {
  std::string text = rounds_by_K(kAuto, stats);
  if (policy.can_pay() && policy.next() <= 1 && policy.factor(1) <= 1) {
    text += fmt::format(
        "speculation cannot pay here: at alpha {:.2f}, no K is faster than plain decoding (K = 1: "
        "{:.2f} times as fast)\n",
        policy.alpha(), policy.factor(1));
  }
  return text;
}

std::string summary(const WhileItPays& policy, std::string_view name, const RunStats& stats) {
  std::string text = rounds_by_K(name, stats);
  if (!policy.pays()) {
    text += "drafting is paused: the last rounds cost more than the tokens that they brought\n";
  }
  return text;
}

}  // namespace specdec

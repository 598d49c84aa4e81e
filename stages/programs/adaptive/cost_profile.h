#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "common/speculation/capacity.h"
#include "kernels/int_size.h"
#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/07_adaptive_drafting/row_budget.h"
#include "stages/07_adaptive_drafting/while_it_pays.h"

namespace specdec {

// The costs of passes and drafts on a machine: c and v of Theorem 3.8, in seconds. Measured once,
// then kept in a file, so that nothing computed from them depends on the clock.
struct CostProfile {
  std::string key = "null";         // JSON object that says what was measured; null: unknown
  std::vector<double> target_pass;  // [largest K + 1] a pass of the target over 1, 2, ... rows of
                                    // each request; never falls
  double draft_step = 0;            // one draft for each request
  double draft_round = 0;           // what the drafts of a round cost besides, however many
  // For a budget of rows: passes of the target over any number of rows, and the first draft and one
  // more for each of 1, 2, ... requests; empty: not measured.
  std::vector<CostCurve::Point> passes_by_rows = {}, first_drafts_by_requests = {},
                                next_drafts_by_requests = {};
  std::string source = {};  // where the profile comes from, for messages

  bool has_rows() const { return !passes_by_rows.empty(); }
  int largest_spec_length() const { return int_size(target_pass) - 1; }
  double c() const { return draft_step / target_pass[0]; }
  // The cost of a pass over `rows` rows, relative to one row. Each row beyond the measured ones
  // adds the average that the last half of these added. REQUIRES: rows >= 1.
  double v(int rows) const;

  // The costs of rounds with K = 0, 1, ... in plain steps, K c + v(rows), and for K > 0
  // draft_round, too; up to the smaller of spec_length and largest_spec_length(). A chain has K + 1
  // rows. The cost of choosing tokens is left out: every token of a text is chosen once in any
  // case, so it does not change the best K.
  std::vector<double> round_costs(int spec_length,
                                  const RoundCapacity& capacity = Capacity::of_chain) const;
};

// Makes a profile from measured seconds. More rows never take less time: where a measurement says
// so, it is noise, and isotonic() removes it.
// REQUIRES: at least one pass; seconds of passes above 0, other times at least 0.
CostProfile make_profile(const Json& key, std::vector<double> target_pass, double draft_step,
                         double draft_round = 0);

Json to_json(const CostProfile& profile);

// name: of the file, for messages. Throws Error, which names the field, if the text is not JSON or
// not a profile, has fewer than 2 or more than 33 passes, or has a number that is no time.
CostProfile parse_profile(std::string_view text, const std::string& name);

// The file that keeps a profile.
struct ProfileFile {
  std::filesystem::path path;
  bool named = false;  // by --cost-profile
};

// The file of --cost-profile. If cost_profile is empty, a file in the folder profiles/ next to the
// program's folder, with a name that depends on the key.
ProfileFile profile_file(const std::string& cost_profile, const Json& key);

// The profile in the file. If there is none, the result of measure(), which is then kept there.
// A named file is used whatever it was measured for, with a note if that is not `key`. Throws Error
// if a named file is damaged or cannot be written. Any other file is measured again if it is
// damaged or has another key. `note` gets one line for each problem.
CostProfile stored_profile(const ProfileFile& file, const Json& key,
                           const std::function<CostProfile()>& measure,
                           const std::function<void(const std::string&)>& note);

// How the key `measured` differs from `wanted`: the first field that differs, for messages.
std::string difference(const Json& measured, const Json& wanted);

// For the beginning of a run: costs, source and first K. One more line if no alpha makes drafting
// pay off.
std::string announcement(const CostProfile& profile, const AdaptiveSpecLength& policy);
// The same for the other policies. name: "entropy".
std::string announcement(const CostProfile& profile, std::string_view name, int largest);

// For the end of a run: the number of rounds with each K. One more line if drafting did not pay off
// at the end.
std::string summary(const AdaptiveSpecLength& policy, const RunStats& stats);
std::string summary(const WhileItPays& policy, std::string_view name, const RunStats& stats);

}  // namespace specdec

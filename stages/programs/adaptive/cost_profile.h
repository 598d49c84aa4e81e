#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/run_stats.h"
#include "common/speculation/capacity.h"
#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/07_adaptive_drafting/while_it_pays.h"

namespace specdec {

// What passes and drafts cost on a machine: c and v of Theorem 3.8 in seconds. Measured once and
// kept in a file, so that what follows from it does not depend on the clock.
struct CostProfile {
  std::string key = "null";         // what it was measured for: a JSON object; null: unknown
  std::vector<double> target_pass;  // [largest K + 1] a pass of the target over 1, 2, ... rows of
                                    // each request; never falls
  double draft_step = 0;            // a token of the draft for each request
  std::string source = {};          // where it comes from, for people

  int largest_spec_length() const { return static_cast<int>(target_pass.size()) - 1; }
  double c() const { return draft_step / target_pass[0]; }
  // REQUIRES: rows >= 1. Rows beyond those measured cost what the last half of these did, each.
  double v(int rows) const;

  // What rounds of 0, 1, ... drafts in a row cost in plain steps, K c + v(rows), up to the smaller
  // of spec_length and largest_spec_length(); a chain has K + 1 rows. Choosing tokens does not
  // stand here: each token of a text is chosen once either way, so it does not move the best K.
  std::vector<double> round_costs(int spec_length,
                                  const RoundCapacity& capacity = Capacity::of_chain) const;
};

// From seconds as measured: more rows never take less time, so where a measurement says otherwise,
// the fewer rows take what the more did (that was noise).
// REQUIRES: at least one pass; seconds above 0, of the draft at least 0.
CostProfile make_profile(const Json& key, std::vector<double> target_pass, double draft_step);

Json to_json(const CostProfile& profile);

// REQUIRES: `name` stands for the file in messages. Throws Error, naming the field: no JSON, no
// profile, fewer than two passes, more than 33, numbers that are no times.
CostProfile parse_profile(std::string_view text, const std::string& name);

// Where a profile is kept.
struct ProfileFile {
  std::filesystem::path path;
  bool named = false;  // by --cost-profile
};

// --cost-profile's file; where it is empty, one in the folder profiles/ beside the folder of the
// program, with a name that depends on the key.
ProfileFile profile_file(const std::string& cost_profile, const Json& key);

// The profile in the file; or, where there is none, what measure() gives, which is kept there.
// A named file is used whatever it was measured for (with a note where that is something else), and
// throws Error where it is damaged or cannot be written. Another file that is damaged or of another
// key is measured anew; for what goes wrong with it, `note` gets a line.
CostProfile stored_profile(const ProfileFile& file, const Json& key,
                           const std::function<CostProfile()>& measure,
                           const std::function<void(const std::string&)>& note);

// What a profile was measured for, where that is not `wanted`: the first field that differs, for
// people.
std::string difference(const Json& measured, const Json& wanted);

// For the beginning of a run: costs, source, the first K; a line more where no alpha can pay.
std::string announcement(const CostProfile& profile, const AdaptiveSpecLength& policy);
// The same for a policy that goes by the draft or by a rule of thumb. name: "entropy".
std::string announcement(const CostProfile& profile, std::string_view name, int largest);

// For its end: which K there were; a line more where plain steps were the rule.
std::string summary(const AdaptiveSpecLength& policy, const RunStats& stats);
std::string summary(const WhileItPays& policy, std::string_view name, const RunStats& stats);

}  // namespace specdec

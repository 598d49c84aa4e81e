#include "stages/programs/run/draft_length.h"

#include "common/base/error.h"

namespace specdec {

DraftLength draft_length_of(const RunOptions& options) {
  return options.auto_spec_length ? DraftLength::kGain : options.draft_length;
}

int largest_spec_length(const RunOptions& options) {
  const bool chosen = draft_length_of(options) != DraftLength::kFixed;
  return chosen && !options.given_spec_length ? kLargestAutoSpecLength : options.spec_length;
}

int spec_length_of(const RunOptions& options) {
  return options.no_speculation ? 0 : largest_spec_length(options);
}

void check_draft_length(const RunOptions& options) {
  const DraftLength how = options.draft_length;
  const bool other = how != DraftLength::kFixed && how != DraftLength::kGain;
  if (options.auto_spec_length && other) {
    fail("--spec-length {} is --draft-length {}; with {} give the most drafts as a number", kAuto,
         name_of(DraftLength::kGain), name_of(how));
  }
  const int most = largest_spec_length(options), least = options.min_spec_length;
  if (how != DraftLength::kFixed && least > most) {
    fail("--min-spec-length is {}; it must not exceed --spec-length, {}", least, most);
  }
}

}  // namespace specdec

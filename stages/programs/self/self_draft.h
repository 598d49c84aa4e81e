#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "stages/09_self_drafting/feature_model.h"
#include "stages/09_self_drafting/markov_model.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// The same options, with heads as --draft-kind where there are some: for a target with included
// heads, and if an option asks for them. Another kind, or a draft model, may be given instead. The
// folder of --heads tells how it drafts. Throws Error if --self-draft says otherwise. A model that
// drafts in parallel becomes a draft model like that of --draft. A feature layer needs the rows of
// a whole text, as heads do that draft for beams. A prefix cache does not keep them, so there is
// none. Throws Error as with_base_kind() does, too.
RunOptions with_heads(RunOptions options);

// What makes a target draft for itself, from the command line: the model that --self-draft names,
// and a target that this model can use. If --draft-kind is another one, nothing changes.
class SelfDraft {
 public:
  // Throws Error for options that heads have no use for. levels: of a round's drafts. REQUIRES: the
  // options outlive this object.
  SelfDraft(const RunOptions& options, int levels);

  // The same parts, for heads. REQUIRES: this object outlives the session.
  SessionParts parts(SessionParts parts) const;
  BatchParts parts(BatchParts parts) const;

 private:
  Drafting drafting(Drafting drafting) const;
  Drafting drafting_in_parallel(Drafting drafting) const;
  HeadsOfTarget make(const ModelFiles& files, const LlamaModel& target,
                     const Capacity& capacity) const;
  HeadsOfTarget make_heads(const ModelFiles& files, const LlamaModel& target,
                           const Capacity& capacity) const;
  HeadsOfTarget make_feature(const ModelFiles& files, const LlamaModel& target,
                             const Capacity& capacity) const;
  std::unique_ptr<FeatureModel> load_layer(FeatureLayer layer, const LlamaModel& target,
                                           int token_limit, const Capacity& capacity,
                                           HeadsMemory& memory) const;
  std::unique_ptr<MarkovModel> correction(OnePassModel* model, const Capacity& capacity) const;
  HeadsOfTarget make_lookahead(const ModelFiles& files, const LlamaModel& target,
                               const Capacity& capacity) const;
  void check_levels(int most, std::string_view what) const;
  bool drafts_up_to() const;

  const RunOptions& options_;
  bool has_heads_, is_parallel_;
  std::filesystem::path folder_;
  int levels_;
};

}  // namespace specdec

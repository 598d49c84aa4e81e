#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/sampling/uniform.h"
#include "common/speculation/drafter.h"

namespace specdec {

// Proposes what a test wants proposed, and remembers what it was asked. It keeps the books of a
// model's cache, so a test can see what a rollback left: after K drafts all but the last one are
// cached.
class ScriptedDrafter : public Drafter {
 public:
  static constexpr TokenId kNoMore = -1;
  // Draft i after this context, the earlier drafts of the call not included; kNoMore ends the call.
  using Script = std::function<TokenId(std::span<const TokenId> context, int i)>;

  struct Call {
    SequenceId sequence = 0;
    int context_length = 0;
    int spec_length = 0;
    bool operator==(const Call&) const = default;
  };
  struct Truncation {
    SequenceId sequence = 0;
    int length = 0;
    bool operator==(const Truncation&) const = default;
  };

  explicit ScriptedDrafter(Script script) : script_(std::move(script)) {}
  // The drafts of one request after the other, in the order in which they are asked for; as many of
  // a list as spec_length allows, and none when the lists are used up.
  explicit ScriptedDrafter(std::vector<std::vector<TokenId>> proposals)
      : script_([this, proposals = std::move(proposals)](std::span<const TokenId>, int i) {
          const std::size_t call = calls.size() - 1;
          if (call >= proposals.size() || i >= std::ssize(proposals[call])) return kNoMore;
          return proposals[call][static_cast<std::size_t>(i)];
        }) {}
  ScriptedDrafter(const ScriptedDrafter&) = delete;  // the script may point to this object
  ScriptedDrafter& operator=(const ScriptedDrafter&) = delete;

  SequenceId create() override {
    lengths_[created_] = 0;
    return created_++;
  }
  void release(SequenceId sequence) override {
    SPECDEC_CHECK(lengths_.erase(sequence) == 1, "sequence {} to exist", sequence);
  }

  void draft(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) {
      const auto context = static_cast<int>(request.context.size());
      int& length = lengths_.at(request.sequence);
      SPECDEC_CHECK(length <= context, "{} cached tokens to be within a context of {}", length,
                    context);
      calls.push_back({request.sequence, context, request.spec_length});
      Drafts& drafts = *request.drafts;
      drafts.clear();
      while (drafts.size() < request.spec_length) {
        const TokenId token = script_(request.context, drafts.size());
        if (token == kNoMore) break;
        drafts.add_certain(token);
      }
      if (drafts.size() > 0) length = context + drafts.size() - 1;
    }
  }

  void truncate(SequenceId sequence, int length) override {
    truncations.push_back({sequence, length});
    int& current = lengths_.at(sequence);
    current = std::min(current, length);
  }

  int length(SequenceId sequence) const override { return lengths_.at(sequence); }
  int context_limit() const override { return limit; }
  int sequences() const { return static_cast<int>(lengths_.size()); }  // not released

  std::vector<Call> calls;  // every request, in order
  std::vector<Truncation> truncations;
  int limit = std::numeric_limits<int>::max();

 private:
  Script script_;
  std::map<SequenceId, int> lengths_;
  SequenceId created_ = 0;
};

// Knows the text that the target will write, and proposes the right token with probability alpha,
// at each absolute position independently of all others; otherwise one that is certainly wrong.
// That is what formula (1) of Leviathan et al. assumes. Ends with the text.
class SyntheticDrafter : public ScriptedDrafter {
 public:
  // text: from the prompt's first token on. The seed is the drafter's own: one of a request would
  // tie its luck to the request's draws. REQUIRES: ids are below vocab_size, which is at least 2.
  SyntheticDrafter(std::vector<TokenId> text, double alpha, std::uint64_t seed, int vocab_size)
      : ScriptedDrafter([=, text = std::move(text)](std::span<const TokenId> context, int i) {
          const std::size_t position = context.size() + static_cast<std::size_t>(i);
          if (position >= text.size()) return kNoMore;
          const double u = uniform(seed, static_cast<int>(position), Purpose::kDraft);
          return u < alpha ? text[position] : (text[position] + 1) % vocab_size;
        }) {}
};

}  // namespace specdec

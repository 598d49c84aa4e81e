#include "stages/programs/sampling/device_judge.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/sampling/device_sampling.h"
#include "common/sampling/draw_index.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

DraftedRound drafted_chain(const RoundToJudge& r) {
  const SpeculationOptions& options = r.judge.options();
  SPECDEC_CHECK(r.drafts.on_device() && options.rule->on_device, "what a GPU can judge");
  const NamedRule& rule =
      options.lenience < 1 ? lenient_rule(options.sampling.temperature) : *options.rule;
  return {.logits = r.logits,
          .drafts = r.drafts.tokens(),
          .draft_probs = r.drafts.device_probs(),
          .sampling = row_sampling(r.judge.judging(), r.context),
          .rule = *rule.on_device,
          .lenience = options.lenience,
          .seed = device_seed(r.judge.random()),
          .position = int_size(r.context)};
}

// Emits the tokens of a verdict, and writes the round's outcome as the request's own judge would.
// A verdict ignores stop conditions; its tokens after a stop are discarded. tested_at(level):
// returns and records what was tested at that level. An Error fails the request.
template <typename AVerdict, typename TestedAt>
void emit(const RoundToJudge& r, const AVerdict& verdict, const TestedAt& tested_at) try {
  r.round.end = RoundEnd::kStopped;
  while (!r.generation.finished()) {
    const bool last = r.round.accepted == verdict.accepted;  // the correction or the bonus
    if (last && verdict.token < 0) fail_without_distribution();
    const TestedPlace place = tested_at(r.round.accepted);
    r.context.push_back(last ? verdict.token : r.drafts.token(place.node));
    r.generation.push(r.context.back());
    if (last) {
      r.round.end = place.tested > 0 ? RoundEnd::kRejected : RoundEnd::kAllAccepted;
      break;
    }
    r.round.accepted++;
  }
} catch (const Error& error) {
  r.failure = error.what();
}

class JudgeOnDevice final : public Judge {
 public:
  JudgeOnDevice(const Judge& judge, DeviceJudge device)
      : Judge(judge), device_(std::move(device)) {}

  void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override {
    std::optional<std::string> failure;
    const RoundToJudge one{*this, drafts, logits, context, generation, round, failure};
    device_.judge({&one, 1});
    if (failure) throw Error(*failure);
  }
  TokenId plain_choice(DeviceRows logits, std::span<const TokenId> context) override {
    return device_.plain_choice(*this, logits, context);
  }

 private:
  DeviceJudge device_;
};

}  // namespace

Overlaps overlaps_for(const RunOptions& options) {
  return options.wants_json() ? Overlaps::kCounted : Overlaps::kNotCounted;
}

SamplerRoom judging_room(const Capacity& capacity, int vocab_size) {
  return {.vocab_size = vocab_size,
          .rows = capacity.requests * capacity.rows(),
          .rounds = capacity.requests,
          .history = capacity.requests * (capacity.context + 1),
          .trials = capacity.requests * capacity.trials,
          .levels = capacity.levels};
}

DeviceJudge::DeviceJudge(Backend& backend, const SamplerRoom& room, Overlaps overlaps,
                         std::optional<TreeRule> siblings)
    : sampler_(backend.make_sampler(room)), siblings_(siblings), levels_(room.levels) {
  SPECDEC_CHECK(sampler_ != nullptr, "a backend that samples");
  const auto requests = static_cast<std::size_t>(room.rounds);
  const auto drafts = static_cast<std::size_t>(room.rows) - requests;
  if (siblings) {
    trees_.reserve(requests);
    nodes_.reserve(drafts);
    trials_.reserve(room.trials);
    tree_verdicts_.resize(requests);
    places_.resize(requests * static_cast<std::size_t>(levels_));
  } else {
    chains_.reserve(requests);
    verdicts_.resize(requests);
    if (overlaps == Overlaps::kCounted) acceptance_probs_.resize(drafts);
  }
}

void DeviceJudge::judge(std::span<const RoundToJudge> rounds) {
  if (siblings_) {
    judge_trees(rounds);
  } else {
    judge_chains(rounds);
  }
}

// [snippet judge-on-device]
void DeviceJudge::judge_chains(std::span<const RoundToJudge> rounds) {
  chains_.clear();
  std::size_t n_drafts = 0;
  for (const RoundToJudge& r : rounds) {
    chains_.push_back(drafted_chain(r));
    n_drafts += r.drafts.tokens().size();
  }
  const auto verdicts = std::span(verdicts_).first(rounds.size());
  const auto acceptance_probs =
      std::span(acceptance_probs_).first(std::min(acceptance_probs_.size(), n_drafts));
  sampler_->judge(chains_, verdicts, acceptance_probs);
  std::size_t first = 0;  // draft of the round
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    Round& round = rounds[i].round;
    emit(rounds[i], verdicts[i], [&](int level) -> TestedPlace {
      if (level == round.drafted) return {};
      const auto draft = first + static_cast<std::size_t>(level);
      if (!acceptance_probs.empty()) round.sum_acceptance_prob += acceptance_probs[draft];
      return {.node = level, .tested = 1};
    });
    first += rounds[i].drafts.tokens().size();
  }
}
// [end snippet judge-on-device]

void DeviceJudge::judge_trees(std::span<const RoundToJudge> rounds) {
  trees_.clear();
  nodes_.clear();
  trials_.clear();
  for (const RoundToJudge& r : rounds) trees_.push_back(drafted_tree(r));
  const auto levels = static_cast<std::size_t>(levels_);
  const auto verdicts = std::span(tree_verdicts_).first(rounds.size());
  const auto places = std::span(places_).first(rounds.size() * levels);
  sampler_->judge_trees(trees_, verdicts, places);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    Round& round = rounds[i].round;
    emit(rounds[i], verdicts[i], [&](int level) {
      const auto at = static_cast<std::size_t>(level);
      const TestedPlace place = at < levels ? places[i * levels + at] : TestedPlace{};
      if (place.tested > 0) round.tested_at.push_back(place.tested);
      if (place.node >= 0) round.path.push_back(place.node);
      return place;
    });
  }
}

DraftedTree DeviceJudge::drafted_tree(const RoundToJudge& r) {
  SPECDEC_CHECK(r.drafts.on_device(), "what a GPU can judge");
  const std::size_t first_node = nodes_.size(), first_trial = trials_.size();
  for (int i = 0; i < r.drafts.size(); ++i) {
    nodes_.push_back({r.drafts.node(i).token, r.drafts.node(i).parent});
  }
  for (const Drafts::Trial& trial : r.drafts.trials()) {
    trials_.push_back({trial.node, r.drafts.device_probs(trial)});
  }
  return {.logits = r.logits,
          .nodes = std::span(nodes_).subspan(first_node),
          .trials = std::span(trials_).subspan(first_trial),
          .sampling = row_sampling(r.judge.judging(), r.context),
          .rule = *siblings_,
          .seed = device_seed(r.judge.random()),
          .position = int_size(r.context),
          .level_draws = r.judge.drafting().named_by_level ? draw_index(1, 0) : 0};
}

TokenId DeviceJudge::plain_choice(const Judge& judge, DeviceRows logits,
                                  std::span<const TokenId> context) {
  const Choice choice{.sampling = row_sampling(judge.judging(), context),
                      .by = judge.takes_likeliest()       ? DrawBy::kLargest
                            : judge.options().rule->races ? DrawBy::kRace
                                                          : DrawBy::kInversion,
                      .seed = device_seed(judge.random()),
                      .position = int_size(context),
                      .purpose = static_cast<std::uint32_t>(Purpose::kTarget)};
  TokenId token = -1;
  sampler_->choose(logits, {&choice, 1}, {&token, 1});
  if (token < 0) fail_without_distribution();
  return token;
}

std::unique_ptr<Judge> judge_on_device(const Judge& judge, const LanguageModel& target,
                                       const Capacity& round, Overlaps overlaps,
                                       std::optional<TreeRule> siblings) {
  Capacity capacity = round;
  capacity.context = target.max_seq_len();
  const SamplerRoom room = judging_room(capacity, target.vocab_size());
  return std::make_unique<JudgeOnDevice>(judge,
                                         DeviceJudge(target.backend(), room, overlaps, siblings));
}

}  // namespace specdec

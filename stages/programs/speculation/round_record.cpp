#include "stages/programs/speculation/round_record.h"

#include <algorithm>

#include <fmt/color.h>

#include "common/base/json_value.h"
#include "common/sampling/uniform.h"
#include "stages/programs/speculation/tree_record.h"

namespace specdec {
namespace {

using Share = RoundRecord::Share;

constexpr std::size_t kShownTokens = 24;

// Selects what is shown of a position's distributions. Both tokens are listed even if unlikely.
struct Shown {
  TokenId draft = -1;    // -1: no draft
  TokenId emitted = -1;  // -1: no token of the text
  bool residual = false;
};

// draft_probs: empty if the draft was certain or if there was none.
RoundRecord::Distributions distributions(std::span<const double> target_probs,
                                         std::span<const double> draft_probs, const Shown& shown) {
  std::vector<Share> shares;
  double owed = 0;
  for (std::size_t i = 0; i < target_probs.size(); i++) {
    const auto id = static_cast<TokenId>(i);
    const double certain = id == shown.draft ? 1.0 : 0.0;
    const double draft_prob = draft_probs.empty() ? certain : draft_probs[i];
    if (target_probs[i] <= 0 && draft_prob <= 0) continue;
    const double residual = shown.residual ? std::max(0.0, target_probs[i] - draft_prob) : 0;
    shares.push_back({id, target_probs[i], draft_prob, residual});
    owed += residual;
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, [](const Share& share) {
    return std::max(share.target_prob, share.draft_prob);
  });
  RoundRecord::Distributions result;
  for (std::size_t i = 0; i < shares.size(); i++) {
    Share& share = shares[i];
    if (owed > 0) share.residual /= owed;
    if (i < kShownTokens || share.token == shown.draft || share.token == shown.emitted) {
      result.tokens.push_back(share);
      continue;
    }
    result.rest.target_prob += share.target_prob;
    result.rest.draft_prob += share.draft_prob;
    result.rest.residual += share.residual;
  }
  return result;
}

// emitted: the token of the text at the draft's position, or -1.
RoundRecord::Draft record_draft(int i, const Round& round, TokenId emitted,
                                const RoundEvidence& evidence) {
  const Drafts& drafts = *evidence.drafts;
  const TokenId token = drafts.token(i);
  const auto index = static_cast<std::size_t>(token);
  const bool tested = i < round.tested(), certain = drafts.probs(i).empty();
  RoundRecord::Draft draft;
  draft.position = round.start + 1 + i;
  draft.token = token;
  draft.draft_prob = certain ? 1 : drafts.probs(i)[index];
  if (!certain && evidence.seed && !evidence.races) {
    draft.draft_uniform = uniform(*evidence.seed, draft.position, Purpose::kDraft);
  }
  draft.verdict = !tested ? kNotTested : i < round.accepted ? kAccepted : kRejected;
  if (!tested) return draft;
  const std::span<const double> target_probs = evidence.target_probs(i);
  draft.target_prob = target_probs[index];
  if (evidence.seed && evidence.tests_by_uniform) {
    draft.accept_uniform = uniform(*evidence.seed, draft.position, Purpose::kAccept);
  }
  draft.distributions =
      distributions(target_probs, drafts.probs(i), {token, emitted, evidence.corrects_by_residual});
  return draft;
}

RoundRecord::Last record_last(const Round& round, TokenId token, const RoundEvidence& evidence) {
  RoundRecord::Last last;
  last.position = round.start + 1 + round.accepted;
  last.token = token;
  last.bonus = round.end == RoundEnd::kAllAccepted;
  const auto target_probs = evidence.target_probs(round.row_of(round.accepted));
  last.target_prob = target_probs[token];
  if (evidence.is_tree) return last;
  if (evidence.seed && !evidence.races) {
    last.uniform =
        uniform(*evidence.seed, last.position, last.bonus ? Purpose::kTarget : evidence.correction);
  }
  last.distributions = last.bonus
                           ? distributions(target_probs, {}, {-1, token, false})
                           : distributions(target_probs, evidence.drafts->probs(round.accepted),
                                           {evidence.drafts->token(round.accepted), token,
                                            evidence.corrects_by_residual});
  return last;
}

Json to_json(const RoundRecord::Distributions& d) {
  Json tokens = Json::array();
  for (const Share& s : d.tokens) {
    tokens.push_back({s.token, s.target_prob, s.draft_prob, s.residual});
  }
  return {{"tokens", tokens}, {"rest", {d.rest.target_prob, d.rest.draft_prob, d.rest.residual}}};
}

Json to_json(const RoundRecord::Draft& draft) {
  Json ratio;  // null if the draft was not tested
  if (draft.target_prob) ratio = *draft.target_prob / draft.draft_prob;
  return {{"position", draft.position},
          {"token", draft.token},
          {"target_prob", number_or_null(draft.target_prob)},
          {"draft_prob", draft.draft_prob},
          {"ratio", ratio},
          {"draft_uniform", number_or_null(draft.draft_uniform)},
          {"accept_uniform", number_or_null(draft.accept_uniform)},
          {"verdict", draft.verdict},
          {"distributions", draft.distributions ? to_json(*draft.distributions) : nullptr}};
}

// The uniform and the distributions are left out for trees.
Json to_json(const RoundRecord::Last& last) {
  Json json = {{"position", last.position},
               {"token", last.token},
               {"kind", last.bonus ? "bonus" : "correction"},
               {"prob", last.target_prob}};
  if (last.distributions) {
    json["uniform"] = number_or_null(last.uniform);
    json["distributions"] = to_json(*last.distributions);
  }
  return json;
}

}  // namespace

RoundRecord record_round(const Round& round, std::span<const TokenId> context,
                         const RoundEvidence& evidence) {
  RoundRecord record;
  record.round = round;
  record.notes = evidence.notes;
  const auto emitted = context.last(round.emitted());
  record.emitted.assign(emitted.begin(), emitted.end());
  if (evidence.is_tree) record_tree(evidence, record);
  for (int i = 0; i < round.drafted && !evidence.is_tree; ++i) {
    const bool in_text = i < round.emitted();
    record.drafts.push_back(record_draft(i, round, in_text ? emitted[i] : -1, evidence));
  }
  if (round.end != RoundEnd::kStopped) record.last = record_last(round, emitted.back(), evidence);
  return record;
}

RoundRecord::CacheState cache_state(const KvCache* cache, SequenceId sequence, int length) {
  if (cache == nullptr) return {length, {}};
  const auto pages = cache->pages(sequence);
  return {length, {pages.begin(), pages.end()}};
}

Json to_json(const RoundRecord::State& state) {
  const auto cache = [](const RoundRecord::CacheState& s) {
    return Json{{"length", s.length}, {"pages", s.pages}};
  };
  return {{"target", cache(state.target)}, {"draft", cache(state.draft)}};
}

Json to_json(const RoundRecord& record) {
  Json json = {{"start", record.round.start},
               {"drafted", record.round.drafted},
               {"accepted", record.round.accepted},
               {"tested", record.round.tested()},
               {"end", round_end_name(record.round.end)},
               {"emitted", record.emitted},
               {"before", to_json(record.before)},
               {"after", to_json(record.after)},
               {"seconds",
                {{"draft", record.draft_seconds},
                 {"verify", record.verify_seconds},
                 {"other", record.other_seconds}}}};
  Json notes = Json::object();
  for (const Note& note : record.notes) notes[std::string(note.name)] = note.value;
  if (!notes.empty()) json["notes"] = notes;
  json["last"] = record.last ? to_json(*record.last) : nullptr;
  if (record.tree) {
    json["tree"] = tree_json(record);
    return json;
  }
  json["drafts"] = Json::array();
  for (const RoundRecord::Draft& draft : record.drafts) json["drafts"].push_back(to_json(draft));
  return json;
}

std::string token_text(TokenId token, const Tokenizer* tokenizer) {
  const std::string text =
      tokenizer == nullptr ? fmt::format("{}", token)
                           : tokenizer->decode(std::span(&token, 1), false);  // special tokens too
  return Json(text).dump();
}

namespace {

// A probability or ratio with three decimals; below 0.001 in the form 2.4e-04.
std::string digits(double value) {
  return value == 0 || value >= 0.001 ? fmt::format("{:.3f}", value) : fmt::format("{:.1e}", value);
}

std::string uniform_text(const std::optional<double>& u) {
  return u ? fmt::format("  u {:.3f}", *u) : "";
}

fmt::terminal_color verdict_colour(std::string_view verdict) {
  if (verdict == kAccepted) return fmt::terminal_color::green;
  if (verdict == kRejected) return fmt::terminal_color::red;
  const bool is_verdict = verdict == kNotTested || verdict == kNotReached;
  return is_verdict ? fmt::terminal_color::bright_black : fmt::terminal_color::blue;
}

std::string pages_text(const RoundRecord::CacheState& state) {
  return state.pages.empty() ? "" : fmt::format(" ({} pages)", state.pages.size());
}

std::string explain_chain(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                          bool colour) {
  const Round& round = record.round;
  std::string text =
      fmt::format("\nround {}, {} cached: {} of {} accepted, {}\n", number, round.start,
                  round.accepted, round.drafted, round_end_name(round.end));
  for (std::size_t i = 0; i < record.notes.size(); ++i) {
    text += fmt::format("{}{} {:.3g}", i == 0 ? "  policy     " : ", ", record.notes[i].name,
                        record.notes[i].value);
  }
  if (!record.notes.empty()) text += "\n";
  for (const RoundRecord::Draft& draft : record.drafts) {
    std::string numbers = "q " + digits(draft.draft_prob);
    if (draft.target_prob) {
      numbers += fmt::format("  p {}  p/q {}", digits(*draft.target_prob),
                             digits(*draft.target_prob / draft.draft_prob));
    }
    text += verdict_line(draft.verdict, 10,
                         fmt::format("{:<16} {}{}", token_text(draft.token, tokenizer), numbers,
                                     uniform_text(draft.accept_uniform)),
                         colour);
  }
  return text;
}

}  // namespace

std::string verdict_line(std::string_view verdict, int width, const std::string& text,
                         bool colour) {
  const auto style = colour ? fmt::fg(verdict_colour(verdict)) : fmt::text_style();
  return fmt::format("  {} {}\n", fmt::format(style, "{:<{}}", verdict, width), text);
}

std::string explain(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                    bool colour) {
  const bool is_tree = record.tree.has_value();
  const int width = is_tree ? kNotReached.size() : kNotTested.size();
  std::string text = is_tree ? explain_tree(record, number, tokenizer, colour)
                             : explain_chain(record, number, tokenizer, colour);
  if (record.last) {
    const auto& [position, token, bonus, target_prob, u, all] = *record.last;
    const std::string_view word = record.round.drafted == 0 ? "emitted"
                                  : bonus                   ? "bonus"
                                                            : "correction";
    const std::string of_token = token_text(token, tokenizer);
    text += verdict_line(word, width,
                         is_tree ? of_token
                                 : fmt::format("{:<16}          p {}{}", of_token,
                                               digits(target_prob), uniform_text(u)),
                         colour);
  }
  const auto pages = [&](const RoundRecord::CacheState& state) {
    return is_tree ? "" : pages_text(state);
  };
  return text + fmt::format("  {:<{}} target {} -> {}{}, draft {} -> {}{}\n", "cached", width,
                            record.before.target.length, record.after.target.length,
                            pages(record.after.target), record.before.draft.length,
                            record.after.draft.length, pages(record.after.draft));
}

}  // namespace specdec

#include "stages/programs/serve/shown_round.h"

#include <string_view>
#include <utility>
#include <vector>

#include "stages/programs/speculation/tree_record.h"

namespace specdec {
namespace {

std::vector<std::string_view> verdicts_of_chain(const Round& round, int drafts) {
  std::vector<std::string_view> verdicts(drafts, kNotTested);
  for (int i = 0; i < std::min(round.accepted, drafts); i++) verdicts[i] = kAccepted;
  if (round.end == RoundEnd::kRejected && round.accepted < drafts) {
    verdicts[round.accepted] = kRejected;
  }
  return verdicts;
}

// The kind of token that the target adds after the accepted drafts.
std::string_view kind_of_last(const Round& round) {
  if (round.drafted == 0) return "plain";
  return round.end == RoundEnd::kRejected ? "correction" : "bonus";
}

Json labelled(std::string_view text, std::string_view name, std::string_view label) {
  Json json = Json::object();
  json["text"] = text;
  json[name] = label;
  return json;
}

}  // namespace

Json shown_round(const Round& round, const Drafts& drafts, std::span<const TokenId> emitted,
                 bool is_tree, const Tokenizer& tokenizer) {
  const auto verdicts =
      is_tree ? node_verdicts(drafts, round, false) : verdicts_of_chain(round, drafts.size());
  Json shown = Json::array(), tokens = Json::array(), last = nullptr;
  for (int i = 0; i < drafts.size(); i++) {
    Json draft = labelled(tokenizer.decoded_bytes(drafts.token(i)), "verdict", verdicts[i]);
    draft["parent"] = drafts.node(i).parent;
    shown.push_back(std::move(draft));
  }
  for (int i = 0; i < std::ssize(emitted); i++) {
    const bool accepted = i < round.accepted;
    Json token = labelled(tokenizer.decoded_bytes(emitted[i]), "kind",
                          accepted ? "accepted" : kind_of_last(round));
    if (!accepted) last = token;
    tokens.push_back(std::move(token));
  }
  return {{"drafts", std::move(shown)}, {"last", std::move(last)}, {"tokens", std::move(tokens)}};
}

}  // namespace specdec

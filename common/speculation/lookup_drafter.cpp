#include "common/speculation/lookup_drafter.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr int kNone = -1;
constexpr int kRoot = 0;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// At most half of the slots are used, which keeps linear probing short.
std::size_t slots_for(std::size_t edges) { return std::bit_ceil(2 * edges); }

}  // namespace

SuffixAutomaton::SuffixAutomaton(int max_length) {
  SPECDEC_CHECK(max_length > 0, "a text of at least one token, not {}", max_length);
  const std::size_t n = at(max_length);
  text_.reserve(n);
  states_.reserve(2 * n + 1);
  edges_.reserve(3 * n);
  slots_.resize(slots_for(3 * n));
  clear();
}

void SuffixAutomaton::clear() {
  text_.clear();
  states_.clear();
  edges_.clear();
  std::ranges::fill(slots_, kNone);
  match_ = {};
  whole_ = add_state(0, 0);
}

// Every suffix of the text so far is now followed by `token`. The suffixes that never were before
// are in the first states on the chain of links; these states get an edge to the new state of the
// whole text. The first state that already has such an edge holds the longest suffix that was
// followed by `token` before, and its edge leads to the match.
//
// Amortised cost: count the states on the chain of links of the whole text. append() adds at most
// two to this count. It subtracts one for each iteration of its loop, and one for each edge that
// split() redirects, except the first. split() also copies edges, but there are at most 3 n edges.
void SuffixAutomaton::append(TokenId token) {
  SPECDEC_CHECK(text_.size() < text_.capacity(), "room for {} tokens", text_.capacity());
  text_.push_back(token);
  const auto length = int_size(text_);
  const int whole = add_state(length, length);
  int from = whole_;
  int edge = kNone;
  while (from != kNone && (edge = find_edge(from, token)) == kNone) {
    add_edge(from, token, whole);
    from = states_[at(from)].link;
  }
  int matched = kRoot;
  if (from != kNone) {
    matched = edges_[at(edge)].to;
    const int longest = states_[at(from)].longest + 1;
    if (states_[at(matched)].longest != longest) matched = split(from, token, matched);
  }
  states_[at(whole)].link = matched;
  whole_ = whole;

  State& state = states_[at(matched)];
  match_ = {state.longest, state.match_end == kNone ? state.first_end : state.match_end};
  state.match_end = length;
}

// Take a string of `from` followed by `token`, and those of its suffixes that share its state. So
// far they occurred only inside the state's longer strings. Now they also end at another position,
// so they get a state of their own, with the same edges. Returns the new state.
int SuffixAutomaton::split(int from, TokenId token, int state) {
  const State longer = states_[at(state)];
  const int shorter = add_state(states_[at(from)].longest + 1, longer.first_end);
  for (int e = longer.first_edge; e != kNone; e = edges_[at(e)].next) {
    add_edge(shorter, edges_[at(e)].token, edges_[at(e)].to);
  }
  states_[at(shorter)].link = longer.link;
  states_[at(state)].link = shorter;
  while (from != kNone) {
    const int edge = find_edge(from, token);
    if (edges_[at(edge)].to != state) break;
    edges_[at(edge)].to = shorter;
    from = states_[at(from)].link;
  }
  return shorter;
}

int SuffixAutomaton::add_state(int longest, int first_end) {
  SPECDEC_CHECK(states_.size() < states_.capacity(), "at most {} states", states_.capacity());
  states_.push_back({.longest = longest, .first_end = first_end});
  return int_size(states_) - 1;
}

// REQUIRES: no edge with this token leaves `from` yet.
void SuffixAutomaton::add_edge(int from, TokenId token, int to) {
  SPECDEC_CHECK(edges_.size() < edges_.capacity(), "at most {} edges", edges_.capacity());
  const auto edge = int_size(edges_);
  slots_[slot(from, token)] = edge;
  edges_.push_back({from, token, to, std::exchange(states_[at(from)].first_edge, edge)});
}

int SuffixAutomaton::find_edge(int from, TokenId token) { return slots_[slot(from, token)]; }

// The slot of this edge, or the empty slot where it belongs (linear probing).
std::size_t SuffixAutomaton::slot(int from, TokenId token) {
  std::uint64_t key =
      std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(token);
  key = (key ^ key >> 29) * 0x9e3779b97f4a7c15;  // multiplicative hashing mixes the upper bits best
  key = (key ^ key >> 32) * 0x9e3779b97f4a7c15;
  std::size_t i = key >> 32 & (slots_.size() - 1);
  while (true) {
    steps_++;
    const int edge = slots_[i];
    if (edge == kNone) return i;
    if (edges_[at(edge)].from == from && edges_[at(edge)].token == token) return i;
    i = (i + 1) & (slots_.size() - 1);
  }
}

LookupDrafter::LookupDrafter(int max_context, int max_sequences, int min_match)
    : min_match_(min_match) {
  SPECDEC_CHECK(min_match >= 1, "matches of at least one token, not {}", min_match);
  sequences_.reserve(at(max_sequences));
  for (int i = 0; i < max_sequences; i++) sequences_.push_back({SuffixAutomaton(max_context)});
}

SequenceId LookupDrafter::create() {
  const auto free = std::ranges::find(sequences_, false, &Sequence::taken);
  if (free == sequences_.end()) {
    throw CacheFull(fmt::format(
        "the lookup drafter has room for {} sequences, and all are in use; release one first",
        sequences_.size()));
  }
  free->taken = true;
  return static_cast<SequenceId>(free - sequences_.begin());
}

void LookupDrafter::release(SequenceId sequence) {
  Sequence& released = state(sequence);
  released.index.clear();
  released.kept = 0;
  released.taken = false;
}

void LookupDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    read(request.context, state(request.sequence));
    propose(request);
  }
}

// Appends the context's new tokens to the index. Starts again if a removed token came back changed.
void LookupDrafter::read(std::span<const TokenId> context, Sequence& sequence) {
  SPECDEC_CHECK(at(sequence.kept) <= context.size(), "the context to go on after {} tokens, not {}",
                sequence.kept, context.size());
  SuffixAutomaton& index = sequence.index;
  const auto taken_back = index.text().subspan(at(sequence.kept));
  const auto since = context.subspan(at(sequence.kept));
  if (!std::ranges::equal(taken_back, since.first(std::min(taken_back.size(), since.size())))) {
    index.clear();
  }
  for (const TokenId token : context.subspan(index.text().size())) index.append(token);
  sequence.kept = int_size(context);
}

// [snippet lookup]
// Copies what followed the match. A copy that reaches the end of the context continues with the
// tokens that it has just drafted.
void LookupDrafter::propose(const DraftRequest& request) const {
  Drafts& drafts = *request.drafts;
  drafts.clear();
  const SuffixAutomaton::Match match = state(request.sequence).index.match();
  if (match.length < min_match_) return;
  const auto length = int_size(request.context);
  for (int from = match.end; drafts.size() < request.spec_length; from++) {
    drafts.add_certain(from < length ? request.context[at(from)] : drafts.token(from - length));
  }
}
// [end snippet lookup]

void LookupDrafter::truncate(SequenceId sequence, int length) {
  SPECDEC_CHECK(length >= 0, "to keep 0 or more tokens, not {}", length);
  Sequence& truncated = state(sequence);
  truncated.kept = std::min(truncated.kept, length);
}

std::int64_t LookupDrafter::index_steps() const {
  std::int64_t sum = 0;
  for (const Sequence& sequence : sequences_) sum += sequence.index.steps();
  return sum;
}

const LookupDrafter::Sequence& LookupDrafter::state(SequenceId sequence) const {
  SPECDEC_CHECK(at(sequence) < sequences_.size() && sequences_[at(sequence)].taken,
                "sequence {} to exist", sequence);
  return sequences_[at(sequence)];
}

LookupDrafter::Sequence& LookupDrafter::state(SequenceId sequence) {
  return const_cast<Sequence&>(std::as_const(*this).state(sequence));
}

}  // namespace specdec

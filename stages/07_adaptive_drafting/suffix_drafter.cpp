#include "stages/07_adaptive_drafting/suffix_drafter.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

void SuffixMemory::add(std::span<const TokenId> text) {
  text = text.last(std::min(text.size(), static_cast<std::size_t>(max_tokens_)));
  if (text.empty()) return;
  const auto is_continued = [text](const std::vector<TokenId>& known) {
    return known.size() <= text.size() && std::ranges::equal(known, text.first(known.size()));
  };
  if (const auto known = std::ranges::find_if(texts_, is_continued); known != texts_.end()) {
    forget(static_cast<std::size_t>(known - texts_.begin()));
  }
  while (tokens_ + int_size(text) > max_tokens_) forget(0);
  trie_.add(text);
  tokens_ += int_size(text);
  texts_.emplace_back(text.begin(), text.end());
}

void SuffixMemory::forget(std::size_t i) {
  trie_.remove(texts_[i]);
  tokens_ -= int_size(texts_[i]);
  texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
}

SuffixDrafter::SuffixDrafter(const Options& options, std::span<const TokenId> earlier)
    : options_(options), earlier_(options.depth), memory_(options.depth, options.memory) {
  SPECDEC_CHECK(options.depth >= 2 && options.min_match >= 1 && options.per_match >= 1 &&
                    options.nodes >= 0 && options.memory >= 0,
                "sound options");
  earlier_.add(earlier);
}

SequenceId SuffixDrafter::create() {
  if (free_.empty()) {
    free_.push_back(static_cast<SequenceId>(sequences_.size()));
    sequences_.push_back({SuffixTrie(options_.depth), {}});
  }
  const SequenceId sequence = free_.back();
  free_.pop_back();
  return sequence;
}

void SuffixDrafter::release(SequenceId sequence) {
  memory_.add(sequences_[sequence].text);
  sequences_[sequence] = {SuffixTrie(options_.depth), {}};
  free_.push_back(sequence);
}

void SuffixDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    Sequence& sequence = sequences_[request.sequence];
    read(request.context, sequence);
    request.drafts->clear();
    grow(request, sequence);
    hand_over(*request.drafts);
  }
}

// Counts the new tokens of the context, but never drafts, because they may be wrong.
void SuffixDrafter::read(std::span<const TokenId> context, Sequence& sequence) {
  const std::size_t known = sequence.text.size();
  SPECDEC_CHECK(known <= context.size(), "a context that goes on after {} tokens", known);
  for (const TokenId token : context.subspan(known)) {
    sequence.text.push_back(token);
    sequence.trie.add_end(sequence.text);
  }
}

// [snippet suffix-grow]
// Takes the likeliest candidates one after another; each brings its own followers.
void SuffixDrafter::grow(const DraftRequest& request, const Sequence& sequence) {
  grown_.clear();
  candidates_ = {};
  found_ = 0;
  const int most = capacity(request.spec_length).nodes;
  const int match = add_followers(sequence, Drafts::kRoot);
  if (match < options_.min_match) return;
  const int levels = std::min(request.spec_length, options_.per_match * match);
  while (!candidates_.empty() && int_size(grown_) < most) {
    grown_.push_back(candidates_.top());
    candidates_.pop();
    if (grown_.back().depth + 1 < levels) add_followers(sequence, int_size(grown_) - 1);
  }
}

// Adds what may follow a grown node, or the context: all followers of the longest match, and in a
// chain the best one only. Returns the length of the match.
int SuffixDrafter::add_followers(const Sequence& sequence, int parent) {
  set_end(sequence, parent);
  const auto [trie, match] = longest_match(sequence);
  if (match.length == 0) return 0;
  int all = 1, best = trie->first_follower(match.node);
  for (int next = best; next != SuffixTrie::kNone; next = trie->next_follower(next)) {
    all += trie->count(next);
    if (trie->count(next) > trie->count(best)) best = next;
  }
  const Candidate before = parent == Drafts::kRoot ? Candidate{.depth = -1} : grown_[parent];
  const int first = options_.nodes == 0 ? best : trie->first_follower(match.node);
  for (int next = first; next != SuffixTrie::kNone; next = trie->next_follower(next)) {
    const double prob = static_cast<double>(trie->count(next)) / all;
    candidates_.push({.parent = parent,
                      .depth = before.depth + 1,
                      .token = trie->token(next),
                      .prob = prob,
                      .path_prob = before.path_prob * prob,
                      .number = found_++});
    if (options_.nodes == 0) break;
  }
  return match.length;
}
// [end snippet suffix-grow]

// The longest match of end_; the request's own text wins among equals.
SuffixDrafter::Found SuffixDrafter::longest_match(const Sequence& sequence) const {
  Found found{&sequence.trie, sequence.trie.longest_match(end_)};
  for (const SuffixTrie* other : {&memory_.trie(), &earlier_}) {
    const SuffixTrie::Match match = other->longest_match(end_);
    if (match.length > found.match.length) found = {other, match};
  }
  return found;
}

// Sets end_ to the last tokens of the context and the path to a grown node.
void SuffixDrafter::set_end(const Sequence& sequence, int node) {
  end_.clear();
  for (; node != Drafts::kRoot && int_size(end_) < options_.depth; node = grown_[node].parent) {
    end_.push_back(grown_[node].token);
  }
  for (auto i = sequence.text.rbegin();
       i != sequence.text.rend() && int_size(end_) < options_.depth; ++i) {
    end_.push_back(*i);
  }
  std::ranges::reverse(end_);
}

// Adds the grown nodes level by level, as drafts must be.
void SuffixDrafter::hand_over(Drafts& drafts) const {
  std::vector<int> numbers(grown_.size()), level = {Drafts::kRoot}, next;
  for (; !level.empty(); level = std::exchange(next, {})) {
    for (const int parent : level) {
      for (int i = parent + 1; i < int_size(grown_); i++) {
        if (grown_[i].parent != parent) continue;
        const int number = parent == Drafts::kRoot ? Drafts::kRoot : numbers[parent];
        numbers[i] = drafts.add_node(number, grown_[i].token, grown_[i].prob);
        drafts.add_trial(numbers[i], Drafts::kCertain);
        next.push_back(i);
      }
    }
  }
}

void SuffixDrafter::truncate(SequenceId sequence, int length) {
  Sequence& truncated = sequences_[sequence];
  while (int_size(truncated.text) > length) {
    truncated.trie.remove_end(truncated.text);
    truncated.text.pop_back();
  }
}

int SuffixDrafter::length(SequenceId sequence) const { return int_size(sequences_[sequence].text); }

Capacity SuffixDrafter::capacity(int spec_length) const {
  const int nodes = options_.nodes > 0 ? options_.nodes : spec_length;
  return {.levels = spec_length, .nodes = nodes, .trials = nodes, .width = 0, .verified = nodes};
}

}  // namespace specdec

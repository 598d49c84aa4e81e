#include "stages/07_adaptive_drafting/ngram_drafter.h"

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// The target's likeliest tokens at position i of the context; empty if they are unknown.
std::span<const TokenId> likely_at(const DraftRequest& request, std::size_t i) {
  const LikelyTokens* likely = request.sampling.likely.get();
  return likely ? likely->at(static_cast<int>(i)) : std::span<const TokenId>();
}

}  // namespace

// [snippet ngram-counts]
void NgramCounts::append(TokenId token, std::span<const TokenId> likely) {
  const auto n = std::min(text_.size(), static_cast<std::size_t>(longest_));
  for (std::size_t length = 1; length <= n; length++) {
    const auto run = std::span(text_).last(length);
    auto found = followers_.find(run);
    if (found == followers_.end()) {
      found = followers_.emplace(std::vector(run.begin(), run.end()), std::vector<TokenId>()).first;
    }
    found->second.insert(found->second.end(), likely.rbegin(), likely.rend());
    found->second.push_back(token);  // the latest, so it wins among equals
  }
  text_.push_back(token);
  counted_.push_back(likely.size() + 1);
}

void NgramCounts::truncate(int length) {
  // [task 7.5: forget what is rolled back]
  while (std::ssize(text_) > length) {
    text_.pop_back();
    const auto n = std::min(text_.size(), static_cast<std::size_t>(longest_));
    for (std::size_t run = 1; run <= n; run++) {
      const auto found = followers_.find(std::span(std::as_const(text_)).last(run));
      found->second.resize(found->second.size() - counted_.back());
      if (found->second.empty()) followers_.erase(found);
    }
    counted_.pop_back();
  }
  // [end task 7.5]
}

TokenId NgramCounts::guess(std::span<const TokenId> text) const {
  for (auto length = std::min(text.size(), static_cast<std::size_t>(longest_)); length > 0;
       length--) {
    const auto found = followers_.find(text.last(length));
    if (found == followers_.end()) continue;
    const std::span all = found->second;
    const auto recent = all.last(std::min<std::size_t>(all.size(), kRecent));
    return *std::ranges::max_element(recent.rbegin(), recent.rend(), {}, [&](TokenId token) {
      return std::ranges::count(recent, token);
    });
  }
  return -1;
}
// [end snippet ngram-counts]

SequenceId NgramDrafter::create() {
  if (free_.empty()) {
    free_.push_back(static_cast<SequenceId>(sequences_.size()));
    sequences_.emplace_back(longest_);
  }
  const SequenceId sequence = free_.back();
  free_.pop_back();
  return sequence;
}

void NgramDrafter::release(SequenceId sequence) {
  sequences_[sequence] = NgramCounts(longest_);
  free_.push_back(sequence);
}

// [snippet ngram-draft]
// Learns the new tokens of the context, but never its own drafts, because they may be wrong.
void NgramDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    NgramCounts& counts = sequences_[request.sequence];
    const auto known = counts.text().size();
    SPECDEC_CHECK(known <= request.context.size(), "a context that goes on after {} tokens", known);
    for (std::size_t i = known; i < request.context.size(); i++) {
      counts.append(request.context[i], likely_at(request, i));
    }
    text_.assign(request.context.begin(), request.context.end());
    request.drafts->clear();
    while (request.drafts->size() < request.spec_length) {
      const TokenId token = counts.guess(text_);
      if (token < 0) break;
      request.drafts->add_certain(token);
      text_.push_back(token);
    }
  }
}
// [end snippet ngram-draft]

void NgramDrafter::truncate(SequenceId sequence, int length) {
  NgramCounts& counts = sequences_[sequence];
  if (length < std::ssize(counts.text())) counts.truncate(length);
}

int NgramDrafter::length(SequenceId sequence) const {
  return int_size(sequences_[sequence].text());
}

}  // namespace specdec

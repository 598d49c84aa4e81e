#include "stages/07_adaptive_drafting/suffix_trie.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

std::uint64_t key(int node, TokenId token) {
  return std::uint64_t{static_cast<std::uint32_t>(node)} << 32 | static_cast<std::uint32_t>(token);
}

}  // namespace

SuffixTrie::SuffixTrie(int depth) : depth_(depth), nodes_(1) {
  SPECDEC_CHECK(depth >= 1, "strings of at least one token, not {}", depth);
}

// [snippet suffix-trie]
void SuffixTrie::add_end(std::span<const TokenId> text) {
  for (int length = std::min(int_size(text), depth_); length > 0; length--) {
    const auto string = text.last(length);
    const int before = find(string.first(length - 1));
    const int known = child(before, string.back());
    nodes_[known != kNone ? known : add_child(before, string.back())].count++;
  }
}

void SuffixTrie::remove_end(std::span<const TokenId> text) {
  for (int length = std::min(int_size(text), depth_); length > 0; length--) {
    const int node = find(text.last(length));
    if (--nodes_[node].count == 0) remove_leaf(node);
  }
}

SuffixTrie::Match SuffixTrie::longest_match(std::span<const TokenId> context) const {
  for (int length = std::min(int_size(context), depth_ - 1); length > 0; length--) {
    const int node = find(context.last(length));
    if (node != kNone && first_follower(node) != kNone) return {length, node};
  }
  return {};
}
// [end snippet suffix-trie]

void SuffixTrie::add(std::span<const TokenId> text) {
  for (int end = 1; end <= int_size(text); end++) add_end(text.first(end));
}

void SuffixTrie::remove(std::span<const TokenId> text) {
  for (int end = int_size(text); end > 0; end--) remove_end(text.first(end));
}

int SuffixTrie::child(int node, TokenId token) const {
  const auto found = children_.find(key(node, token));
  return found == children_.end() ? kNone : found->second;
}

int SuffixTrie::find(std::span<const TokenId> string) const {
  int node = kRoot;
  for (const TokenId token : string) {
    node = child(node, token);
    if (node == kNone) return kNone;
  }
  return node;
}

int SuffixTrie::add_child(int parent, TokenId token) {
  SPECDEC_CHECK(parent != kNone, "the text's shorter beginnings to be counted");
  if (free_.empty()) {
    free_.push_back(int_size(nodes_));
    nodes_.emplace_back();
  }
  const int node = free_.back();
  free_.pop_back();
  const int next = nodes_[parent].first;
  nodes_[node] = {.token = token, .parent = parent, .next = next};
  if (next != kNone) nodes_[next].previous = node;
  nodes_[parent].first = node;
  children_.emplace(key(parent, token), node);
  return node;
}

void SuffixTrie::remove_leaf(int node) {
  const Node& leaf = nodes_[node];
  SPECDEC_CHECK(leaf.first == kNone, "a string without longer ones, not node {}", node);
  if (leaf.previous != kNone) nodes_[leaf.previous].next = leaf.next;
  if (leaf.previous == kNone) nodes_[leaf.parent].first = leaf.next;
  if (leaf.next != kNone) nodes_[leaf.next].previous = leaf.previous;
  children_.erase(key(leaf.parent, leaf.token));
  free_.push_back(node);
}

}  // namespace specdec

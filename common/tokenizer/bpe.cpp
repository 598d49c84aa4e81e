#include "common/tokenizer/bpe.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr TokenId kDead = -1;
constexpr TokenId kNoToken = -1;
constexpr std::int32_t kNone = -1;
constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no pair: ids are not negative

std::uint64_t pack(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
}

// Whether a merges after b. With this order, the next merge is on top of the heap.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
};

TokenId merge_token(const Vocabulary& vocabulary, std::string_view text, std::size_t rank) {
  const auto id = vocabulary.find_model_text(text);
  if (!id) fail("model.merges[{}]: {} is no token of model.vocab", rank, in_quotes(text));
  return *id;
}

}  // namespace

MergeTable::MergeTable(std::size_t expected) {
  int bits = 4;
  while ((std::size_t{1} << bits) < 2 * expected) ++bits;
  slots_.assign(std::size_t{1} << bits, Slot{kFree, {}});
  shift_ = 64 - bits;
}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  // Fibonacci hashing (Knuth, volume 3, section 6.4): the upper bits of a product with 2^64 / phi.
  std::size_t i = (pair * 0x9E3779B97F4A7C15u) >> shift_;
  while (slots_[i].pair != pair && slots_[i].pair != kFree) i = (i + 1) & mask;
  return i;
}

void MergeTable::set(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t pair = pack(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

const Merge* MergeTable::find(TokenId left, TokenId right) const {
  const Slot& slot = slots_[slot_of(pack(left, right))];
  return slot.pair == kFree ? nullptr : &slot.merge;
}

BpeModel::BpeModel(const Vocabulary& vocabulary, const StringList& merge_parts,
                   const BpeOptions& options)
    : merges_(merge_parts.size() / 2),
      ignore_merges_(options.ignore_merges),
      fuse_unknown_(options.fuse_unk) {
  find_byte_tokens(vocabulary, options);
  std::string joined;
  for (int rank = 0; 2 * rank < int_size(merge_parts); ++rank) {
    const std::string_view left = merge_parts[2 * rank];
    const std::string_view right = merge_parts[2 * rank + 1];
    const TokenId left_id = merge_token(vocabulary, left, rank);
    const TokenId right_id = merge_token(vocabulary, right, rank);
    joined.assign(left).append(right);
    const TokenId merged = merge_token(vocabulary, joined, rank);
    merges_.set(left_id, right_id, {rank, merged});
  }
}

void BpeModel::find_byte_tokens(const Vocabulary& vocabulary, const BpeOptions& options) {
  if (options.unk_token) unknown_token_ = vocabulary.find_model_text(*options.unk_token);
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const auto id = vocabulary.find_model_bytes(std::string_view(&character, 1));
    if (!id && options.unk_token && !unknown_token_) {
      fail("model: the byte 0x{:02X} has no token, and the unk_token {} is no token of model.vocab",
           byte, in_quotes(*options.unk_token));
    }
    byte_tokens_[byte] = id.value_or(kNoToken);
  }
}

void BpeModel::encode(std::string_view word, const Vocabulary& vocabulary, Workspace& work,
                      std::vector<TokenId>& out) const {
  if (ignore_merges_) {
    if (const auto id = vocabulary.find_model_bytes(word)) return out.push_back(*id);
  }
  start(word, work);
  if (work.symbols.empty()) return;
  merge_all(work);
  for (std::int32_t i = 0; i != kNone; i = work.symbols[i].next) {
    out.push_back(work.symbols[i].id);
  }
}

// The word as a doubly linked list of its bytes' tokens, and a queue of all pairs that merge.
void BpeModel::start(std::string_view word, Workspace& work) const {
  add_symbols(word, work);
  const int length = int_size(work.symbols);
  if (length > 0) work.symbols.back().next = kNone;
  work.queue.clear();
  for (std::int32_t i = 0; i + 1 < length; ++i) push_candidate(i, work);
}

void BpeModel::add_symbols(std::string_view word, Workspace& work) const {
  work.symbols.clear();
  bool after_unknown = false;
  for (const char character : word) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(character)];
    const bool unknown = token == kNoToken;
    const bool fused = fuse_unknown_ && after_unknown;
    after_unknown = unknown;
    work.unknown_bytes_ += unknown ? 1 : 0;
    if (unknown && (!unknown_token_ || fused)) continue;
    const int i = int_size(work.symbols);
    work.symbols.push_back({unknown ? *unknown_token_ : token, i - 1, i + 1});
  }
}

// If the symbol at `position` and its right neighbour merge, their merge joins the queue.
void BpeModel::push_candidate(std::int32_t position, Workspace& work) const {
  const auto& left = work.symbols[position];
  const auto& right = work.symbols[left.next];
  const Merge* merge = merges_.find(left.id, right.id);
  if (merge == nullptr) return;
  work.queue.push_back({merge->rank, position, merge->merged});
  std::push_heap(work.queue.begin(), work.queue.end(), kLater);
}

// [snippet merge-all]
// The queue is a heap with the next merge on top. A merge outdates entries of the queue. They are
// recognised when their turn comes: the left symbol is dead or has lost its neighbour, or the pair
// that is there now becomes another token. (Comparing the token suffices: a symbol only grows, so
// the same place gives the same token only from the same two halves.)
void BpeModel::merge_all(Workspace& work) const {
  const auto symbol = [&](std::int32_t i) -> Workspace::Symbol& { return work.symbols[i]; };
  while (!work.queue.empty()) {
    std::pop_heap(work.queue.begin(), work.queue.end(), kLater);
    const Workspace::Candidate candidate = work.queue.back();
    work.queue.pop_back();
    Workspace::Symbol& left = symbol(candidate.position);
    if (left.id == kDead || left.next == kNone) continue;
    Workspace::Symbol& right = symbol(left.next);
    const Merge* merge = merges_.find(left.id, right.id);
    if (merge == nullptr || merge->merged != candidate.merged) continue;

    left.id = candidate.merged;
    left.next = right.next;
    right.id = kDead;
    if (left.next != kNone) symbol(left.next).previous = candidate.position;
    if (left.previous != kNone) push_candidate(left.previous, work);
    if (left.next != kNone) push_candidate(candidate.position, work);
  }
}
// [end snippet merge-all]

}  // namespace specdec

#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/token_id.h"
#include "common/tokenizer/string_list.h"
#include "common/tokenizer/vocabulary.h"

namespace specdec {

// What a pair of neighbouring tokens becomes, and how early: the merge of lowest rank comes first.
struct Merge {
  std::int32_t rank;
  TokenId merged;
};

// (left, right) -> Merge. A hash table with open addressing. Every pair of bytes of every word is
// looked up among the 280,147 merges of Llama 3, so each lookup should touch one cache line.
class MergeTable {
 public:
  explicit MergeTable(std::size_t expected);
  // A pair that is there already gets the new rank: the last of several equal merges counts.
  void set(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const;  // nullptr if the pair does not merge

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
  int shift_;
};

// How to encode words, according to tokenizer.json.
struct BpeOptions {
  // If the whole word is a token, it becomes that token, whether merges lead to it or not.
  bool ignore_merges = false;
  // The token for a byte that has none, as the file spells it. Without it, such bytes are left out,
  // and their neighbours become neighbours of each other.
  std::optional<std::string> unk_token = {};
  bool fuse_unk = false;  // one unk_token for several such bytes in a row
};

// Byte pair encoding (Gage 1994; for subwords Sennrich et al. 2016, section 3.2). A word begins as
// its bytes. As long as two neighbours have a merge, the merge of lowest rank is carried out, the
// leftmost among equals.
class BpeModel {
 public:
  // merge_parts: the left and right token of merge 0, of merge 1, ...; a merge's rank is its index.
  // Errors: a part of a merge or its result is not a token; a byte needs the unk_token, which is
  // not a token.
  BpeModel(const Vocabulary& vocabulary, const StringList& merge_parts, const BpeOptions& options);

  // The token for bytes that have none; nothing: they are left out.
  std::optional<TokenId> unknown_token() const { return unknown_token_; }

  // Memory that one encode call reuses from word to word.
  class Workspace {
   public:
    // How many bytes of the words so far had no token.
    std::size_t unknown_bytes() const { return unknown_bytes_; }

   private:
    friend class BpeModel;
    struct Symbol {
      TokenId id;  // kDead once it has become part of its left neighbour
      std::int32_t previous;
      std::int32_t next;
    };
    struct Candidate {
      std::int32_t rank;
      std::int32_t position;  // of the left one
      TokenId merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
    std::size_t unknown_bytes_ = 0;
  };

  // Appends the tokens of one word. REQUIRES: word is not empty and shorter than 2^31 bytes;
  // vocabulary is the one given to the constructor. Takes n log n steps for n bytes.
  void encode(std::string_view word, const Vocabulary& vocabulary, Workspace& work,
              std::vector<TokenId>& out) const;

 private:
  void find_byte_tokens(const Vocabulary& vocabulary, const BpeOptions& options);
  void start(std::string_view word, Workspace& work) const;
  void add_symbols(std::string_view word, Workspace& work) const;
  void merge_all(Workspace& work) const;
  void push_candidate(std::int32_t position, Workspace& work) const;

  std::array<TokenId, 256> byte_tokens_;  // kNoToken where a byte has none
  std::optional<TokenId> unknown_token_;
  MergeTable merges_;
  bool ignore_merges_;
  bool fuse_unknown_;
};

}  // namespace specdec

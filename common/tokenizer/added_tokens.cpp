#include "common/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"
#include "common/tokenizer/unicode.h"

namespace specdec {
namespace {

// \w as Unicode's technical standard 18 (annex C) and Rust's regex define it: alphabetic
// characters, marks, decimal digits, connectors and the two joiners. Alphabetic characters are
// letters, letter numbers, some marks, and the circled letters in `ranges`.
bool is_word_character(char32_t character) {
  static const CodePointSet set = [] {
    std::vector<CodePointRange> ranges = {{0x200C, 0x200D},
                                          {0x24B6, 0x24E9},
                                          {0x1F130, 0x1F149},
                                          {0x1F150, 0x1F169},
                                          {0x1F170, 0x1F189}};
    for (const char* property : {"L", "M", "Nd", "Nl", "Pc"}) {
      const CodePointSet members = *unicode_property(property);
      ranges.insert(ranges.end(), members.ranges().begin(), members.ranges().end());
    }
    return CodePointSet(std::move(ranges));
  }();
  return set.contains(character);
}

// The character before `end`. REQUIRES: text is UTF-8 and end > 0.
std::size_t previous_character(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

bool white_space_at(std::string_view text, std::size_t offset) {
  return is_white_space(next_utf8(text.substr(offset)).character);
}

std::size_t skip_space_left(std::string_view text, std::size_t end) {
  while (end > 0 && white_space_at(text, previous_character(text, end))) {
    end = previous_character(text, end);
  }
  return end;
}

std::size_t skip_space_right(std::string_view text, std::size_t begin) {
  while (begin < text.size() && white_space_at(text, begin)) {
    begin += next_utf8(text.substr(begin)).length;
  }
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    (tokens_[i].normalized ? normalized_ : raw_).add(tokens_[i].content, i);
  }
}

void AddedTokens::Pass::add(const std::string& content, std::size_t token) {
  token_of_content.emplace(content, token);
  auto& known = lengths[static_cast<unsigned char>(content.front())];
  if (std::find(known.begin(), known.end(), content.size()) != known.end()) return;
  known.push_back(content.size());
  std::sort(known.begin(), known.end(), std::greater<>());
}

// Hashing the few lengths that occur is as fast here as a trie, and less code.
std::optional<std::size_t> AddedTokens::Pass::longest_at(std::string_view text,
                                                         std::size_t offset) const {
  for (const std::size_t length : lengths[static_cast<unsigned char>(text[offset])]) {
    if (length > text.size() - offset) continue;
    const auto found = token_of_content.find(text.substr(offset, length));
    if (found != token_of_content.end()) return found->second;
  }
  return std::nullopt;
}

void AddedTokens::split(std::string_view text, SpecialText special_text, const OnText& on_text,
                        const OnToken& on_token) const {
  const auto on_rest = [&](std::string_view rest) {
    split_pass(normalized_, special_text, rest, on_text, on_token);
  };
  const bool one_pass = normalized_.token_of_content.empty();
  split_pass(raw_, special_text, text, one_pass ? on_text : OnText(on_rest), on_token);
}

// Like Hugging Face's added_vocabulary.rs, including its corner cases: a rejected match still uses
// up its characters; and a token inside the white space that another token's rstrip took is still
// found, unless nothing of it is left.
void AddedTokens::split_pass(const Pass& pass, SpecialText special_text, std::string_view text,
                             const OnText& on_text, const OnToken& on_token) const {
  std::size_t done = 0;  // text before this place has been passed on
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::optional<std::size_t> found = pass.longest_at(text, offset);
    if (!found) {
      ++offset;
      continue;
    }
    const AddedToken& token = tokens_[*found];
    std::size_t begin = offset;
    std::size_t end = offset + token.content.size();
    offset = end;
    if (token.special && special_text == SpecialText::kOrdinary) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(done, skip_space_left(text, begin));
    if (token.rstrip) end = skip_space_right(text, end);
    if (begin >= end) continue;  // a token of white space that an earlier token took
    if (done < begin) on_text(text.substr(done, begin - done));
    on_token(token.id);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

bool AddedTokens::stands_alone(std::string_view text, std::size_t begin, std::size_t end) const {
  const auto word_character_at = [&](std::size_t offset) {
    return is_word_character(next_utf8(text.substr(offset)).character);
  };
  if (begin > 0 && word_character_at(previous_character(text, begin))) return false;
  if (end < text.size() && word_character_at(end)) return false;
  return true;
}

}  // namespace specdec

// Any bytes as a text: an Error if they are not UTF-8, and otherwise ids that decode to the text.
// The first byte chooses the tokenizer.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/utf8.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/unit/common/tokenizer/tokenizer_builder.h"

namespace {

using specdec::Json;
using specdec::TokenId;
using specdec::Tokenizer;

Json with_merges() {
  return specdec::small_tokenizer({{"Ġ", "Ġ"},
                                   {"s", "t"},
                                   {"t", "s"},
                                   {"st", "s"},
                                   {"Ã", "©"},
                                   {"a", "a"},
                                   {"aa", "a"},
                                   {"a", "aa"},
                                   {"Ċ", "Ċ"},
                                   {"'", "s"}});
}

Tokenizer like_llama3() { return specdec::parse(with_merges()); }

// Every flag that neither drops nor adds characters.
Tokenizer with_flags() {
  Json file = with_merges();
  file["model"]["ignore_merges"] = false;
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}};
  Json word = specdec::added_token(300, "cat", false);
  word["single_word"] = true;
  Json late = specdec::added_token(301, "at", false);
  late["normalized"] = true;
  file["added_tokens"].push_back(word);
  file["added_tokens"].push_back(late);
  return specdec::parse(file);
}

// No tokens for three bytes: 0x04, "q", and one that begins characters beyond the BMP.
Tokenizer with_missing_bytes() {
  Json file = with_merges();
  for (const char* letter : {"\u0104", "q", "\u00F3"}) file["model"]["vocab"].erase(letter);
  return specdec::parse(file);
}

// The text as such a tokenizer gives it back.
std::string without_missing_bytes(std::string_view text) {
  std::string kept(text);
  std::erase_if(kept, [](char byte) { return byte == '\x04' || byte == 'q' || byte == '\xF3'; });
  std::string characters;
  specdec::LossyUtf8 decoder;
  decoder.push(kept, characters);
  decoder.finish(characters);
  return characters;
}

// The other flags: what comes back is checked for being UTF-8 only.
Tokenizer with_lossy_flags() {
  Json file = with_merges();
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  Json strip = specdec::added_token(300, "  ", false);
  Json both = specdec::added_token(301, "mm", false);
  both["lstrip"] = both["rstrip"] = true;
  file["added_tokens"].push_back(strip);
  file["added_tokens"].push_back(both);
  return specdec::parse(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<Tokenizer, 4> tokenizers = {like_llama3(), with_flags(),
                                                      with_missing_bytes(), with_lossy_flags()};
  if (size == 0) return 0;
  const std::size_t choice = data[0] % tokenizers.size();
  const Tokenizer& tokenizer = tokenizers[choice];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<TokenId> ids;
  try {
    ids = tokenizer.encode(text);
  } catch (const specdec::Error&) {
    SPECDEC_CHECK(specdec::find_invalid_utf8(text), "UTF-8 to be encoded");
    return 0;
  }
  SPECDEC_CHECK(!specdec::find_invalid_utf8(text), "what is not UTF-8 to be refused");
  for (const TokenId id : ids) SPECDEC_CHECK(tokenizer.contains(id), "{} to be a token", id);
  const std::string begin(tokenizer.token_bytes(ids.at(0)));
  const std::string decoded = tokenizer.decode(ids, /*skip_special_tokens=*/false);
  const std::string expected = choice == 2 ? without_missing_bytes(text) : std::string(text);
  if (choice < 3) SPECDEC_CHECK(decoded == begin + expected, "decode to undo encode");
  SPECDEC_CHECK(!specdec::find_invalid_utf8(decoded), "decode to give UTF-8");
  return 0;
}

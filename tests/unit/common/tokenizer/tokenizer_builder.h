#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_value.h"
#include "common/tokenizer/byte_alphabet.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {

// Llama 3's split pattern; see golden/ for the files that have it.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline Json added_token(TokenId id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// A complete tokenizer.json in Llama 3's structure. Its tokens are the 256 bytes, whose ids are the
// bytes, then the result of each merge if it is new, then <|begin|> and <|end|>. Merges are written
// in the byte alphabet. Each test changes the part that it tests.
inline Json small_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(alphabet_character(static_cast<unsigned char>(byte)))] = byte;
  }
  Json merge_list = Json::array();
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    merge_list.push_back(left + " " + right);
  }
  const TokenId begin = static_cast<TokenId>(vocab.size());
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kLlama3Pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  const Json around = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|begin|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens",
       {{"<|begin|>", {{"id", "<|begin|>"}, {"ids", {begin}}, {"tokens", {"<|begin|>"}}}}}}};
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {added_token(begin, "<|begin|>"), added_token(begin + 1, "<|end|>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}}},
      {"post_processor", {{"type", "Sequence"}, {"processors", Json::array({byte_level, around})}}},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", true},
        {"vocab", vocab},
        {"merges", merge_list}}}};
}

inline void remove_element(Json& list, int index) {
  Json::Array kept(list.begin(), list.end());
  kept.erase(kept.begin() + index);
  list = kept;
}

inline Tokenizer parse(const Json& file) { return Tokenizer::parse(file.dump(), "tokenizer.json"); }

}  // namespace specdec

#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/tokenizer/regex_translation.h"

// PCRE2's types, so that only split_regex.cpp includes its header.
struct pcre2_real_code_8;
struct pcre2_real_match_context_8;

namespace specdec {

// A pattern that splits text. Every match is a piece, and so is the text between two matches
// (Hugging Face calls this behaviour "Isolated"). The pieces joined are the text.
class SplitRegex {
 public:
  // pattern: in Oniguruma's language, as in tokenizer.json; see regex_translation.h. Errors: the
  // pattern is wrong, or uses refused syntax.
  static SplitRegex from_pattern(std::string_view pattern);
  // Matches exactly this text. REQUIRES: literal is not empty.
  static SplitRegex from_literal(std::string_view literal);

  // Calls sink for each piece, in order; pieces are never empty. REQUIRES: text is UTF-8. Errors:
  // the pattern needs more steps or memory than its limits allow. May run in several threads.
  void split(std::string_view text, const std::function<void(std::string_view)>& sink) const;

 private:
  class Search;
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct FreeContext {
    void operator()(pcre2_real_match_context_8* context) const;
  };
  using Context = std::unique_ptr<pcre2_real_match_context_8, FreeContext>;
  SplitRegex(std::string_view pattern, TranslatedRegex translated);
  static Context new_context(std::uint32_t match_limit);

  std::string name_;  // for messages: the pattern as it is in the file
  CharacterKinds kinds_;
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  Context context_;
  bool compiled_to_machine_code_ = false;
};

}  // namespace specdec

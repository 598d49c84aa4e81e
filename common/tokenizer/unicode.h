#pragma once
#include <optional>
#include <string_view>

#include "common/tokenizer/code_point_set.h"

namespace specdec {

// What Unicode 16 says of characters. It is the version that Oniguruma has in `tokenizers` 0.23;
// PCRE2 has another one in nearly every release, so split patterns never ask PCRE2.

// The characters with a property: a general category (Lu), a group of them (L, LC) or a script
// (Han; Script, not Script_Extensions). Nothing for names that are none of these.
std::optional<CodePointSet> unicode_property(std::string_view name);

// White_Space: what \s matches, and is_white_space (common/base/utf8.h) accepts.
CodePointSet unicode_white_space();

}  // namespace specdec

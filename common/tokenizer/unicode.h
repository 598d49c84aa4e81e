#pragma once
#include <optional>
#include <string_view>

#include "common/tokenizer/code_point_set.h"

namespace specdec {

// Properties of characters in Unicode 16, the version of Oniguruma in `tokenizers` 0.23. PCRE2's
// version changes with nearly every release, so split patterns do not use PCRE2's properties.

// The characters with a property: a general category (Lu), a group of categories (L, LC) or a
// script (Han; Script, not Script_Extensions). Nothing for any other name.
std::optional<CodePointSet> unicode_property(std::string_view name);

// White_Space: what \s matches, and is_white_space (common/base/utf8.h) accepts.
CodePointSet unicode_white_space();

}  // namespace specdec

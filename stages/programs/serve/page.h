#pragma once
#include <string_view>

namespace specdec {

extern const std::string_view kPage;  // page.html, as embedded by the build

}  // namespace specdec

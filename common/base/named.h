#pragma once
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace specdec {

// Lists of what people choose by name. A table is an array of entries, each with a `name`, a
// `summary`, which is a line of help, and whatever its readers need to know. A name is typed in its
// table, and nowhere else.

// nullptr if the table has no such name.
template <typename Table>
constexpr auto find_named(const Table& table, std::string_view name) -> decltype(std::data(table)) {
  for (const auto& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// "a, b, c", or with other words between the names; of all entries, or of those that `holds`.
template <typename Table, typename Holds>
std::string names_where(const Table& table, std::string_view between, const Holds& holds) {
  std::string names;
  for (const auto& entry : table) {
    if (!std::invoke(holds, entry)) continue;
    if (!names.empty()) names += between;
    names += entry.name;
  }
  return names;
}

template <typename Table>
std::string names_in(const Table& table) {
  return names_where(table, ", ", [](const auto&) { return true; });
}

// Throws Error, listing the names: "--option name: there is no such thing; there are ...".
template <typename Table>
const auto& get_named(const Table& table, std::string_view name, std::string_view option,
                      std::string_view thing) {
  const auto* entry = find_named(table, name);
  if (entry == nullptr) {
    fail("{} {}: there is no such {}; there are {}", option, name, thing, names_in(table));
  }
  return *entry;
}

}  // namespace specdec

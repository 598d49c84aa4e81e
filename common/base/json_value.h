#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace specdec {

// What a Json can be read as: bool, a number, std::string, or a std::vector of such.
template <typename T>
inline constexpr bool kJsonReadable = std::same_as<T, bool> || std::same_as<T, std::string> ||
                                      (std::is_arithmetic_v<T> && sizeof(T) >= sizeof(int));
template <typename T>
inline constexpr bool kJsonReadable<std::vector<T>> = kJsonReadable<T>;

// A JSON value. It is written and used as nlohmann::json is, and prints the same text, but is no
// template: that library is in json_value.cpp alone, since a file takes seconds to compile with it.
// Texts are UTF-8: U+FFFD takes the place of bytes that are not, as in the name of a file.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json();  // null
  Json(std::nullptr_t);
  template <std::same_as<bool> Bool>  // no pointer is one
  Json(Bool value) : value_(value) {}
  Json(int value);
  Json(unsigned value);
  Json(long value);
  Json(unsigned long value);
  Json(long long value);
  Json(unsigned long long value);
  Json(double value);
  Json(const char* value);
  Json(std::string_view value);
  Json(std::string value);
  // A list of numbers, texts or lists.
  template <std::ranges::input_range Range>
  requires(!std::convertible_to<const Range&, std::string_view> && !std::same_as<Range, Json> &&
           std::convertible_to<std::ranges::range_reference_t<const Range&>, Json>)
      Json(const Range& range)
      : Json(Array(std::ranges::begin(range), std::ranges::end(range))) {}
  template <typename T>
  Json(const std::map<std::string, T>& fields) : Json(Object(fields.begin(), fields.end())) {}
  Json(Array values);
  Json(Object fields);
  // An object where each value is a list of a text and something; otherwise a list.
  Json(std::initializer_list<Json> values);
  static Json array(std::initializer_list<Json> values = {});
  static Json object();
  // Throws std::exception where the text is not JSON. (For files there is parse_json.)
  static Json parse(std::string_view text);

  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_number_integer() const;  // of any sign
  bool is_number_unsigned() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  const char* type_name() const;  // "null", "boolean", "number", "string", "array" or "object"

  // The value as a given type. Numbers are converted as C++ does it. Throws std::exception where it
  // is of another type.
  template <typename T>
  requires kJsonReadable<T> T get()
  const {
    T result{};
    read(result);
    return result;
  }

  template <typename T>
  requires kJsonReadable<T>
  operator T() const { return get<T>(); }

  // Of lists and objects; 0 for null, 1 for all else.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // Of a list. Throw std::exception where the value is none, or is too short.
  const Json& at(std::size_t index) const;
  const Json& operator[](std::size_t index) const { return at(index); }
  Json& operator[](std::size_t index);
  const Json& operator[](int index) const { return at(static_cast<std::size_t>(index)); }
  Json& operator[](int index) { return (*this)[static_cast<std::size_t>(index)]; }
  const Json& back() const { return at(size() - 1); }
  Json& back() { return (*this)[size() - 1]; }
  const Json* begin() const;  // of a list; all else is empty
  const Json* end() const;
  Json* begin();
  Json* end();
  void push_back(Json value);  // null becomes a list

  // Of an object. Throw std::exception where the value is none, or lacks the field.
  const Json& at(std::string_view key) const;
  const Json& at(const char* key) const { return at(std::string_view(key)); }
  const Json& operator[](std::string_view key) const { return at(key); }
  const Json& operator[](const char* key) const { return at(std::string_view(key)); }
  Json& operator[](std::string_view key);  // null becomes an object; a new field is null
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  const Json* find(std::string_view key) const;  // nullptr: there is no such field, or no object
  // The field as the type of `otherwise`, which is the value where there is no such field.
  template <typename T>
  T value(std::string_view key, T otherwise) const {
    const Json* found = find(key);
    return found == nullptr ? otherwise : static_cast<T>(*found);
  }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Object& items() const;
  void update(const Json& fields);  // replaces fields, or adds them
  void erase(std::string_view key);

  // The text, on one line, or indented by `indent` spaces.
  std::string dump(int indent = -1) const;

  // Numbers are compared by value, whatever their types.
  friend bool operator==(const Json& a, const Json& b);
  template <typename T>
  requires std::is_arithmetic_v<T>
  friend bool operator==(const Json& a, T b) { return a == Json(b); }
  friend std::ostream& operator<<(std::ostream& stream, const Json& value);

 private:
  void read(bool& result) const;
  void read(int& result) const;
  void read(unsigned& result) const;
  void read(std::int64_t& result) const;
  void read(std::uint64_t& result) const;
  void read(float& result) const;
  void read(double& result) const;
  void read(std::string& result) const;
  template <typename T>
  void read(std::vector<T>& result) const {
    for (const Json& value : list()) result.push_back(value.get<T>());
  }
  const Array& list() const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

}  // namespace specdec

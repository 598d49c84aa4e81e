#include "common/tokenizer/tokenizer_json.h"

#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

constexpr std::size_t kDeepest = 64;  // levels of nesting; real files have 7

// Receives the parser's events. Outside model.vocab and model.merges it builds the tree `rest`.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(TokenizerJson& out) : out_(out) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return number(v, std::to_string(v)); }
  bool number_unsigned(number_unsigned_t v) override { return number(v, std::to_string(v)); }
  bool number_float(number_float_t v, const string_t& text) override { return number(v, text); }
  bool string(string_t& v) override;
  bool binary(binary_t&) override { return value(nullptr); }  // JSON has none
  bool key(string_t& v) override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& e) override;

 private:
  enum class Place { kTree, kVocab, kMerges, kPair };

  Json* put(Json v);
  bool value(Json v);
  template <typename Number>
  bool number(Number v, const std::string& text);
  void open(Json v);
  bool in_model(std::string_view name) const;
  std::size_t merge_index() const { return out_.merge_parts.size() / 2; }
  [[noreturn]] void bad_vocab_id(std::string_view what) const;
  [[noreturn]] void bad_merge() const;

  TokenizerJson& out_;
  Place place_ = Place::kTree;
  std::vector<Json*> open_;  // the objects and arrays around the current place
  std::string key_;
  std::size_t parts_in_pair_ = 0;
};

// Puts a value into the innermost open object or array; returns a pointer to it.
Json* Reader::put(Json v) {
  if (open_.empty()) {
    out_.rest = std::move(v);
    return &out_.rest;
  }
  Json& parent = *open_.back();
  if (parent.is_object()) return &(parent[key_] = std::move(v));
  parent.push_back(std::move(v));
  return &parent.back();
}

bool Reader::value(Json v) {
  if (place_ == Place::kVocab) bad_vocab_id(v.is_string() ? "a string" : v.type_name());
  if (place_ != Place::kTree) bad_merge();
  put(std::move(v));
  return true;
}

template <typename Number>
bool Reader::number(Number v, const std::string& text) {
  if (place_ != Place::kVocab) return value(v);
  if constexpr (!std::is_integral_v<Number>) {
    bad_vocab_id(text);
  } else {
    constexpr auto kLargest = static_cast<Number>(std::numeric_limits<TokenId>::max());
    if (v < 0 || v > kLargest) bad_vocab_id(text);
    out_.vocab_texts.add(key_);
    out_.vocab_ids.push_back(v);
    return true;
  }
}

bool Reader::string(string_t& v) {
  if (place_ == Place::kPair) {
    out_.merge_parts.add(v);
    if (++parts_in_pair_ > 2) fail("model.merges[{}] has more than two parts", merge_index() - 1);
    return true;
  }
  if (place_ != Place::kMerges) return value(v);
  // The older spelling is "left right". Files converted from a merges.txt may begin with its
  // heading.
  if (v.rfind("#version", 0) == 0) return true;
  const std::size_t space = v.find(' ');
  if (space == std::string::npos || v.find(' ', space + 1) != std::string::npos) {
    fail("model.merges[{}]: {} is not two tokens with one space between them", merge_index(),
         in_quotes(v));
  }
  out_.merge_parts.add(std::string_view(v).substr(0, space));
  out_.merge_parts.add(std::string_view(v).substr(space + 1));
  return true;
}

bool Reader::key(string_t& v) {
  if (place_ == Place::kTree && open_.back()->contains(v)) {
    fail("the key {} appears twice in one object", in_quotes(v));
  }
  key_ = v;
  return true;
}

bool Reader::in_model(std::string_view name) const {
  return place_ == Place::kTree && open_.size() == 2 && out_.rest.is_object() && key_ == name &&
         open_.back()->is_object() && out_.rest.contains("model") &&
         open_.back() == &out_.rest["model"];
}

void Reader::open(Json v) {
  if (open_.size() == kDeepest) fail("more than {} levels of nesting", kDeepest);
  open_.push_back(put(std::move(v)));
}

bool Reader::start_object(std::size_t) {
  if (place_ == Place::kVocab) bad_vocab_id("an object");
  if (place_ != Place::kTree) bad_merge();
  if (in_model("vocab")) {
    out_.has_vocab = true;
    place_ = Place::kVocab;
  }
  open(Json::object());
  return true;
}

bool Reader::end_object() {
  place_ = Place::kTree;
  open_.pop_back();
  return true;
}

bool Reader::start_array(std::size_t) {
  if (place_ == Place::kVocab) bad_vocab_id("an array");
  if (place_ == Place::kPair) bad_merge();
  if (place_ == Place::kMerges) {
    place_ = Place::kPair;
    parts_in_pair_ = 0;
    return true;
  }
  if (in_model("merges")) {
    out_.has_merges = true;
    place_ = Place::kMerges;
  }
  open(Json::array());
  return true;
}

bool Reader::end_array() {
  if (place_ == Place::kPair) {
    if (parts_in_pair_ != 2) {
      fail("model.merges[{}] has {} parts instead of two", merge_index(), parts_in_pair_);
    }
    place_ = Place::kMerges;
    return true;
  }
  place_ = Place::kTree;
  open_.pop_back();
  return true;
}

void Reader::bad_vocab_id(std::string_view what) const {
  fail("model.vocab: the id of {} is {}, not an integer from 0 to 2147483647", in_quotes(key_),
       what);
}

void Reader::bad_merge() const {
  fail("model.merges[{}] is neither a string \"left right\" nor a pair [\"left\", \"right\"]",
       merge_index());
}

bool Reader::parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the label.
  const std::string_view what = e.what();
  const std::size_t label = what.find("] ");
  const std::string_view rest = what.substr(label == std::string_view::npos ? 0 : label + 2);
  std::string message;
  LossyUtf8().push(rest, message);
  fail("not JSON: {}", message);
}

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view text) {
  if (const auto place = place_of_nul(text)) fail("not JSON: a NUL at {}", *place);
  TokenizerJson out;
  Reader reader(out);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  if (!out.rest.is_object()) fail("the top level is {}, not an object", out.rest.type_name());
  return out;
}

}  // namespace specdec

#include "common/tokenizer/further_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"
#include "common/tokenizer/tokenizer_parts.h"

namespace specdec {
namespace {

constexpr TokenId kNoId = -1;

// In transformers' order.
constexpr std::array<std::string_view, 7> kNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

bool is_known_name(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Which objects are tokens: those that say so (tokenizer_config.json), or all of them
// (special_tokens_map.json).
enum class Objects { kTyped, kAny };

struct SpecialTokens {
  std::map<std::string, AddedToken> named;
  std::optional<std::vector<AddedToken>> extra;
};

// The token that a text or an object describes; nothing for any other value.
std::optional<AddedToken> read_token(const Json& value, const std::string& where, Objects objects) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
  } else {
    const Json* type = value.find("__type");
    const bool typed = type != nullptr && *type == "AddedToken";
    if (!value.is_object() || (objects == Objects::kTyped && !typed)) return std::nullopt;
    token = read_token_flags(JsonObject(value, where));
    // transformers sets the flag before `normalized` gets its default.
    if (objects == Objects::kAny && !value.contains("normalized")) token.normalized = false;
  }
  token.special = token.special || value.is_string() || objects == Objects::kAny;
  token.id = kNoId;
  return token;
}

AddedToken read_required_token(const Json& value, const std::string& where, Objects objects) {
  const std::optional<AddedToken> token = read_token(value, where, objects);
  if (!token) fail("{} is {}; it must be a string or an added token", where, excerpt(value));
  return *token;
}

// bos_token and the like, and other members whose names end with _token.
void read_named(const Json& file, const std::string& name, Objects objects, SpecialTokens& out) {
  for (const auto& [key, value] : file.items()) {
    const std::string where = name + ": " + key;
    if (is_known_name(key)) {
      out.named.erase(key);
      if (!value.is_null()) out.named[key] = read_required_token(value, where, objects);
    } else if (key.ends_with("_token")) {
      if (const auto token = read_token(value, where, objects)) out.named[key] = *token;
    }
  }
}

// A list of tokens, or an object of named ones.
void read_extra(const Json& value, const std::string& where, Objects objects, SpecialTokens& out) {
  if (value.is_object()) {
    for (const auto& [key, token] : value.items()) {
      out.named[key] = read_required_token(token, where + ": " + key, Objects::kTyped);
    }
    return;
  }
  if (!value.is_array()) fail("{} is {}; it must be a list", where, excerpt(value));
  if (!out.extra) out.extra.emplace();
  for (const Json& token : value) {
    out.extra->push_back(read_required_token(token, where, objects));
  }
}

// extra_special_tokens, or if it is empty, the member of the older name. A member that is null is
// present, too: special_tokens_map.json does not replace it.
void read_extra_of_config(const Json& config, const std::string& name, SpecialTokens& out) {
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json* value = config.find(key);
    if (value == nullptr) continue;
    read_extra(value->is_null() ? Json::array() : *value, name + ": " + key, Objects::kTyped, out);
    if (!value->empty()) return;
  }
}

void read_special_tokens_map(const std::filesystem::path& path, SpecialTokens& out) {
  if (!std::filesystem::exists(path)) return;
  const Json file = parse_json(read_text_file(path), path.string());
  const JsonObject object(file, path.string());
  read_named(file, path.string(), Objects::kAny, out);
  const bool has_extra = out.extra.has_value();
  if (const Json* extra = object.find("extra_special_tokens")) {
    read_extra(*extra, path.string() + ": extra_special_tokens", Objects::kAny, out);
  } else if (const Json* older = object.find("additional_special_tokens"); older && !has_extra) {
    read_extra(*older, path.string() + ": additional_special_tokens", Objects::kTyped, out);
  }
}

std::vector<AddedToken> read_listed(const JsonObject& config) {
  const Json& list = *config.find("added_tokens_decoder");
  if (!list.is_object()) config.fail_type("added_tokens_decoder", "an object");
  std::vector<AddedToken> tokens;
  for (const auto& [key, flags] : list.items()) {
    const std::string where = fmt::format("{}: added_tokens_decoder[{}]", config.name(), key);
    AddedToken token = read_token_flags(JsonObject(flags, where));
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      fail("{}: {} is not an integer from 0 to 2147483647", where, in_quotes(key));
    }
    tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

// Adds tokens to a list of added tokens, as the library `tokenizers` does.
class AddedTokenList {
 public:
  AddedTokenList(const Vocabulary& model_tokens, std::vector<AddedToken>& tokens)
      : model_tokens_(model_tokens), tokens_(tokens), next_(model_tokens.entry_count()) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      place_of_.emplace(tokens[i].content, i);
      next_ = std::max(next_, std::int64_t{tokens[i].id} + 1);
    }
  }

  void add(AddedToken token) {
    const auto [known, is_new] = place_of_.emplace(token.content, tokens_.size());
    if (!is_new) return change(tokens_[known->second], token);
    const TokenId stated = token.id;
    if (const auto of_model = model_tokens_.find_model_text(token.content)) {
      token.id = *of_model;
    } else {
      if (next_ > std::numeric_limits<TokenId>::max()) {
        fail("no id is left for the token {}", in_quotes(token.content));
      }
      token.id = next_++;
      if (stated != kNoId && stated != token.id) {
        fail("tokenizer_config.json gives the token {} the id {}, but the next id here is {}",
             in_quotes(token.content), stated, token.id);
      }
    }
    tokens_.push_back(std::move(token));
  }

 private:
  // The token keeps its id, and remains special if it was.
  static void change(AddedToken& known, const AddedToken& to) {
    if (to.normalized != known.normalized) {
      fail("tokenizer_config.json says that \"normalized\" is {} for the token {}; here it is {}",
           to.normalized, in_quotes(to.content), known.normalized);
    }
    const TokenId id = known.id;
    const bool special = known.special || to.special;
    known = to;
    known.id = id;
    known.special = special;
  }

  const Vocabulary& model_tokens_;
  std::vector<AddedToken>& tokens_;
  std::map<std::string, std::size_t, std::less<>> place_of_;
  std::int64_t next_;
};

// Before transformers had added_tokens_decoder, an added_tokens.json had contents and ids.
void read_old_added_tokens(const std::filesystem::path& path, FurtherTokens& out) {
  if (!std::filesystem::exists(path)) return;
  const Json file = parse_json(read_text_file(path), path.string());
  const JsonObject object(file, path.string());
  for (const auto& [content, id] : file.items())
    out.old[content] = object.required_integer(content);
}

// Several members may name the same new token. If they give it different flags, it depends on their
// order which flags count.
void add_special(const AddedToken& token, std::vector<AddedToken>& tokens) {
  const auto same = std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& other) {
    return other.content == token.content;
  });
  if (same == tokens.end()) return tokens.push_back(token);
  AddedToken wanted = token;
  wanted.special = same->special = same->special || token.special;
  if (wanted != *same) {
    fail("tokenizer_config.json or special_tokens_map.json describes the token {} in several ways",
         in_quotes(token.content));
  }
}

}  // namespace

FurtherTokens read_further_tokens(const std::filesystem::path& directory) {
  FurtherTokens further;
  SpecialTokens tokens;
  const std::filesystem::path path = directory / "tokenizer_config.json";
  if (std::filesystem::exists(path)) {
    const Json file = parse_json(read_text_file(path), path.string());
    const JsonObject config(file, path.string());
    if (config.boolean("split_special_tokens").value_or(false)) {
      fail("{}: split_special_tokens is not supported", path.string());
    }
    read_named(file, path.string(), Objects::kTyped, tokens);
    read_extra_of_config(file, path.string(), tokens);
    if (config.has("added_tokens_decoder")) further.listed = read_listed(config);
  }
  if (!further.listed) {
    read_special_tokens_map(directory / "special_tokens_map.json", tokens);
    read_old_added_tokens(directory / "added_tokens.json", further);
  }
  for (const std::string_view name : kNames) {
    const auto found = tokens.named.find(std::string(name));
    if (found != tokens.named.end()) further.special.push_back(found->second);
  }
  for (const auto& [name, token] : tokens.named) {
    further.named.insert(token.content);
    if (!is_known_name(name)) further.own[name] = token.content;
  }
  const auto extra = tokens.extra.value_or(std::vector<AddedToken>());
  further.special.insert(further.special.end(), extra.begin(), extra.end());
  return further;
}

void add_further_tokens(const FurtherTokens& further, const Vocabulary& model_tokens,
                        std::vector<AddedToken>& added) {
  std::map<std::string, TokenId, std::less<>> known = {{"", kNoId}};  // no token is empty
  for (const AddedToken& token : added) known[token.content] = token.id;
  for (const auto& [content, id] : further.old) {
    const auto found = known.find(content);
    if (found == known.end() || found->second != id) {
      fail("added_tokens.json gives the token {} the id {}, but here is no such added token",
           in_quotes(content), id);
    }
  }
  std::vector<AddedToken> tokens = further.listed.value_or(added);
  for (const AddedToken& token : tokens) known.emplace(token.content, token.id);
  for (const auto& [name, content] : further.own) {
    if (!known.contains(content)) {
      fail("tokenizer_config.json has the token {} as {}, but it is no added token here",
           in_quotes(content), in_quotes(name));
    }
  }
  for (const AddedToken& token : further.special) {
    if (!known.contains(token.content)) add_special(token, tokens);
  }
  AddedTokenList list(model_tokens, added);
  for (AddedToken& token : tokens) {
    token.special = token.special || further.named.contains(token.content);
    list.add(std::move(token));
  }
}

}  // namespace specdec

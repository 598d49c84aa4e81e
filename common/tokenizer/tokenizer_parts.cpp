#include "common/tokenizer/tokenizer_parts.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

// GPT-2's pattern, by which ByteLevel splits.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Each split is a level of recursion for each word. Published models have up to seven splits.
constexpr std::size_t kMostSplits = 64;

// The characters of Digits: Rust's char::is_numeric, which includes 13 numbers of Unicode 17.
constexpr std::string_view kNumeric = R"([\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}])";

TokenId read_id(const Json& value, const JsonObject& where) {
  const std::optional<int> id = as_int(value);
  if (!id || *id < 0) {
    fail("{}: the id {} is not an integer from 0 to 2147483647", where.name(), excerpt(value));
  }
  return *id;
}

// Visits a part, or each part of a sequence: {"type": "Sequence", MEMBERS: [...]}, at any depth.
template <typename Visit>
void for_each_part(const JsonObject& part, const char* members, Visit visit) {
  const std::string type = part.required_string("type");
  if (type != "Sequence") return visit(part, type);
  for (const Json& member : part.required_list(members)) {
    for_each_part(JsonObject(member, part.name()), members, visit);
  }
}

SplitRegex read_split(const JsonObject& split) {
  const std::string behavior = split.required_string("behavior");
  if (behavior != "Isolated") {
    fail("pre_tokenizer: Split with the behavior {} is not supported, only \"Isolated\"",
         in_quotes(behavior));
  }
  if (split.boolean("invert").value_or(false)) {
    fail("pre_tokenizer: Split with \"invert\" is not supported");
  }
  const JsonObject pattern = split.required_object("pattern");
  if (const auto regex = pattern.string("Regex")) return SplitRegex::from_pattern(*regex);
  const std::string literal = pattern.required_string("String");
  if (literal.empty()) fail("pre_tokenizer: Split with an empty pattern");
  return SplitRegex::from_literal(literal);
}

void add_byte_level(const JsonObject& byte_level, PreTokenizer& chain) {
  if (byte_level.boolean("add_prefix_space").value_or(true)) chain.add_prefix_space();
  if (byte_level.boolean("use_regex").value_or(true)) {
    chain.add(SplitRegex::from_pattern(kGpt2Pattern));
  }
}

// The ids of a special token that a template names.
std::vector<TokenId> template_ids(const JsonObject& processing, const std::string& name,
                                  const Vocabulary& vocabulary) {
  const JsonObject known = processing.required_object("special_tokens");
  const std::optional<JsonObject> token = known.object(name);
  if (!token) {
    fail("{}: the template uses {}, which is not in its special_tokens", processing.name(),
         in_quotes(name));
  }
  std::vector<TokenId> ids;
  for (const Json& value : token->required_list("ids")) {
    ids.push_back(read_id(value, processing));
    if (!vocabulary.contains(ids.back())) {
      fail("{}: the template's {} has the id {}, which no token has", processing.name(),
           in_quotes(name), ids.back());
    }
  }
  return ids;
}

// Puts the tokens of one TemplateProcessing around those of the earlier ones.
void wrap(const JsonObject& processing, const Vocabulary& vocabulary, TextTemplate& around) {
  std::vector<TokenId> before;
  bool text_seen = false;
  for (const Json& value : processing.required_list("single")) {
    const JsonObject piece(value, processing.name() + ": single");
    if (const auto sequence = piece.object("Sequence")) {
      if (text_seen || sequence->required_string("id") != "A") {
        fail("{}: the template must contain the sequence A once and no other", processing.name());
      }
      text_seen = true;
      continue;
    }
    const std::string name = piece.required_object("SpecialToken").required_string("id");
    std::vector<TokenId>& side = text_seen ? around.after : before;
    const std::vector<TokenId> ids = template_ids(processing, name, vocabulary);
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!text_seen) fail("{}: the template leaves out the text", processing.name());
  around.before.insert(around.before.begin(), before.begin(), before.end());
}

AddedToken read_added_token(const JsonObject& object) {
  const Json* id = object.find("id");
  if (id == nullptr) object.fail_missing("id");
  AddedToken token = read_token_flags(object);
  token.id = read_id(*id, object);
  return token;
}

// A member that must be null, or have a value that changes nothing.
void refuse_unless(const JsonObject& model, const char* key, const Json& harmless,
                   std::string_view reason) {
  const Json* found = model.find(key);
  if (found != nullptr && *found != harmless) {
    fail("model: {} {} is not supported{}", key, excerpt(*found), reason);
  }
}

}  // namespace

void check_version_and_normalizer(const Json& file) {
  const JsonObject object(file, "the file");
  if (const Json* version = object.find("version"); version != nullptr && *version != "1.0") {
    fail("version is {}; specdec knows \"1.0\"", excerpt(*version));
  }
  if (const auto normalizer = object.object("normalizer")) {
    fail("the normalizer {} is not supported, only null; Llama 3 has none",
         in_quotes(normalizer->required_string("type")));
  }
}

void check_decoder(const Json& file) {
  const std::optional<JsonObject> decoder = JsonObject(file, "the file").object("decoder");
  if (!decoder) fail("there is no decoder; specdec supports \"ByteLevel\"");
  int decoders = 0;
  for_each_part(JsonObject(file["decoder"], "decoder"), "decoders",
                [&](const JsonObject&, const std::string& type) {
                  if (type != "ByteLevel") {
                    fail("the decoder {} is not supported, only \"ByteLevel\"", in_quotes(type));
                  }
                  ++decoders;
                });
  if (decoders != 1) fail("the decoder has {} ByteLevel parts instead of one", decoders);
}

BpeOptions read_bpe_options(const Json& file) {
  if (!file.contains("model")) fail("there is no model: is this a tokenizer.json?");
  const JsonObject model(file["model"], "model");
  // The oldest files name no type.
  const std::string type = model.string("type").value_or("BPE");
  if (type != "BPE") {
    fail("the model {} is not supported, only byte-level \"BPE\" (as Llama 3 has)",
         in_quotes(type));
  }
  refuse_unless(model, "byte_fallback", false,
                ": this is a tokenizer in SentencePiece's style, as Llama 2 has; specdec reads "
                "byte-level BPE, as Llama 3 has");
  refuse_unless(model, "dropout", 0.0, ": it would make encoding random");
  refuse_unless(model, "continuing_subword_prefix", "", "");
  refuse_unless(model, "end_of_word_suffix", "", "");
  return {.ignore_merges = model.boolean("ignore_merges").value_or(false),
          .unk_token = model.string("unk_token"),
          .fuse_unk = model.boolean("fuse_unk").value_or(false)};
}

std::vector<AddedToken> read_added_tokens(const Json& file) {
  std::vector<AddedToken> tokens;
  const JsonObject object(file, "the file");
  if (!object.has("added_tokens")) return tokens;
  std::set<std::string> contents;
  for (const Json& value : object.required_list("added_tokens")) {
    const std::string name = fmt::format("added_tokens[{}]", tokens.size());
    tokens.push_back(read_added_token(JsonObject(value, name)));
    if (!contents.insert(tokens.back().content).second) {
      fail("added_tokens lists {} twice", in_quotes(tokens.back().content));
    }
  }
  return tokens;
}

AddedToken read_token_flags(const JsonObject& object) {
  AddedToken token;
  token.content = object.required_string("content");
  if (token.content.empty()) fail("{}: the content is empty", object.name());
  token.special = object.boolean("special").value_or(false);
  token.single_word = object.boolean("single_word").value_or(false);
  token.lstrip = object.boolean("lstrip").value_or(false);
  token.rstrip = object.boolean("rstrip").value_or(false);
  token.normalized = object.boolean("normalized").value_or(!token.special);
  return token;
}

PreTokenizer read_pre_tokenizer(const Json& file) {
  if (!JsonObject(file, "the file").has("pre_tokenizer")) {
    fail("there is no pre_tokenizer; specdec needs one that ends in \"ByteLevel\"");
  }
  PreTokenizer chain;
  bool byte_level = false;
  for_each_part(
      JsonObject(file["pre_tokenizer"], "pre_tokenizer"), "pretokenizers",
      [&](const JsonObject& part, const std::string& type) {
        // ByteLevel translates text into its alphabet, so a pattern after it would see that
        // alphabet.
        if (byte_level) fail("the pre_tokenizer {} follows ByteLevel", in_quotes(type));
        if (type == "Split") {
          chain.add(read_split(part));
        } else if (type == "Digits") {
          const bool each = part.boolean("individual_digits").value_or(false);
          chain.add(SplitRegex::from_pattern(fmt::format("{}{}", kNumeric, each ? "" : "+")));
        } else if (type == "ByteLevel") {
          byte_level = true;
          add_byte_level(part, chain);
        } else {
          fail(
              "the pre_tokenizer {} is not supported, only \"Split\", \"Digits\" and "
              "\"ByteLevel\"",
              in_quotes(type));
        }
        if (chain.size() > kMostSplits) {
          fail("the pre_tokenizer splits more than {} times in sequence", kMostSplits);
        }
      });
  if (!byte_level) fail("the pre_tokenizer does not end in ByteLevel: this is no byte-level BPE");
  return chain;
}

TextTemplate read_post_processor(const Json& file, const Vocabulary& vocabulary) {
  TextTemplate around;
  if (!JsonObject(file, "the file").has("post_processor")) return around;
  for_each_part(JsonObject(file["post_processor"], "post_processor"), "processors",
                [&](const JsonObject& part, const std::string& type) {
                  if (type == "ByteLevel") return;  // moves offsets, which specdec does not have
                  if (type != "TemplateProcessing") {
                    fail(
                        "the post_processor {} is not supported, only \"TemplateProcessing\" and "
                        "\"ByteLevel\"",
                        in_quotes(type));
                  }
                  wrap(part, vocabulary, around);
                });
  return around;
}

}  // namespace specdec

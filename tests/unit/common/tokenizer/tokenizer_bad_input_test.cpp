// Each kind of wrong tokenizer.json has its own message: one line, which begins with the file.
#include <functional>
#include <string>

#include "common/base/json_value.h"
#include "tests/test_support.h"
#include "tests/unit/common/tokenizer/tokenizer_builder.h"

namespace specdec {
namespace {

// The message for a good file after one change.
std::string message_after(const std::function<void(Json&)>& change) {
  Json file = small_tokenizer({{"h", "e"}});
  change(file);
  return error_message([&] { parse(file); });
}

#define EXPECT_REFUSED(change, message)          \
  EXPECT_THAT(                                   \
      message_after([](Json& file) { change; }), \
      ::testing::AllOf(::testing::StartsWith("tokenizer.json: "), ::testing::HasSubstr(message)))

void expect_text_refused(const std::string& text, const std::string& message) {
  EXPECT_THAT(error_message([&] { Tokenizer::parse(text, "t.json"); }),
              ::testing::AllOf(::testing::StartsWith("t.json: "), ::testing::HasSubstr(message)))
      << text.substr(0, 100);
}

Json& model(Json& file) { return file["model"]; }
Json& around(Json& file) { return file["post_processor"]["processors"][1]; }
Json& split(Json& file) { return file["pre_tokenizer"]["pretokenizers"][0]; }

TEST(TokenizerBadInputTest, TheUnchangedFileIsGood) {
  EXPECT_EQ(message_after([](Json&) {}), "");
}

TEST(TokenizerBadInputTest, FilesThatCannotBeRead) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(Tokenizer::load(directory.path() / "absent.json"),
               "absent.json: cannot be opened: No such file");
  EXPECT_ERROR(Tokenizer::load(directory.path()), "is not a regular file");
  EXPECT_ERROR(Tokenizer::load(directory.write("empty.json", "")), "empty.json: not JSON");
}

TEST(TokenizerBadInputTest, NoJson) {
  expect_text_refused("", "not JSON: parse error at line 1, column 1");
  expect_text_refused("{\"a\":\n1,,}", "not JSON: parse error at line 2, column 3");
  expect_text_refused(std::string("{}\n\0 junk", 9), "not JSON: a NUL at line 2, column 1");
  expect_text_refused("{} x", "not JSON: parse error at line 1, column 4");
  expect_text_refused("{\"model\": {\"vocab\": {\"a\": 1", "not JSON");
  expect_text_refused("{\"a\": \"\xFF\"}", "ill-formed UTF-8");
  expect_text_refused("{\"a\": \"\\ud800\"}", "not JSON");
  expect_text_refused("{\"a\": 1e999}", "not JSON: number overflow");
  expect_text_refused("[1, 2]", "the top level is array, not an object");
  expect_text_refused("null", "the top level is null, not an object");
  expect_text_refused("{\"a\": 1, \"a\": 2}", "the key \"a\" appears twice");
  expect_text_refused("{\"x\": " + std::string(100000, '[') + std::string(100000, ']') + "}",
                      "more than 64 levels of nesting");
  expect_text_refused(std::string(100000, '{'), "not JSON");
}

TEST(TokenizerBadInputTest, Model) {
  EXPECT_REFUSED(file.erase("model"), "there is no model: is this a tokenizer.json?");
  EXPECT_REFUSED(file["model"] = 3, "model: expected an object, found 3");
  EXPECT_REFUSED(model(file)["type"] = 3, "type is 3");
  EXPECT_REFUSED(model(file)["type"] = "WordPiece", "the model \"WordPiece\" is not supported");
  EXPECT_REFUSED(model(file)["type"] = "Unigram", "the model \"Unigram\" is not supported");
  EXPECT_REFUSED(model(file)["byte_fallback"] = true, "SentencePiece's style, as Llama 2 has");
  EXPECT_REFUSED(model(file)["dropout"] = 0.1, "dropout 0.1 is not supported");
  EXPECT_REFUSED(model(file)["fuse_unk"] = 3, "fuse_unk is 3; it must be true or false");
  EXPECT_REFUSED(model(file)["unk_token"] = 3, "unk_token is 3; it must be a string");
  EXPECT_REFUSED(model(file)["continuing_subword_prefix"] = "##",
                 "continuing_subword_prefix \"##\"");
  EXPECT_REFUSED(model(file)["end_of_word_suffix"] = "</w>", "end_of_word_suffix \"</w>\"");
  EXPECT_REFUSED(model(file)["ignore_merges"] = 1, "ignore_merges is 1; it must be true or false");
  EXPECT_REFUSED(model(file).erase("vocab"), "model has no \"vocab\" object");
  EXPECT_REFUSED(model(file)["vocab"] = Json::array(), "model has no \"vocab\" object");
  EXPECT_REFUSED(model(file).erase("merges"), "model has no \"merges\" array");
  EXPECT_REFUSED(model(file)["merges"] = "a b", "model has no \"merges\" array");
}

TEST(TokenizerBadInputTest, VocabularyIds) {
  EXPECT_REFUSED(model(file)["vocab"]["he"] = -1, "model.vocab: the id of \"he\" is -1");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = 1.5, "the id of \"he\" is 1.5, not an integer");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = 2147483648, "the id of \"he\" is 2147483648");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = 18446744073709551615u, "is 18446744073709551615");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = "7", "the id of \"he\" is a string");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = nullptr, "the id of \"he\" is null");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = true, "the id of \"he\" is boolean");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = Json::array(), "the id of \"he\" is an array");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = Json::object(), "the id of \"he\" is an object");
  EXPECT_REFUSED(model(file)["vocab"]["he"] = 255, "have the same id 255");
  // Must not take eight gigabytes to say so.
  EXPECT_REFUSED(model(file)["vocab"]["he"] = 2147483647, "the ids reach 2147483647 with only");
  expect_text_refused("{\"model\":{\"vocab\":{\"a\":1,\"a\":2},\"merges\":[]}}", "");
}

TEST(TokenizerBadInputTest, VocabularyTokens) {
  // A byte without a token needs the unk_token, where the file names one.
  EXPECT_EQ(message_after([](Json& file) { model(file)["unk_token"] = "<unk>"; }), "");
  EXPECT_REFUSED(model(file)["unk_token"] = "<unk>";
                 model(file)["vocab"].erase("!"),
                 "the byte 0x21 has no token, and the unk_token \"<unk>\" is no token of");
  EXPECT_REFUSED(model(file)["unk_token"] = "<|end|>";
                 model(file)["vocab"].erase("!"),
                 "the unk_token \"<|end|>\" is no token of model.vocab");
  EXPECT_REFUSED(model(file)["vocab"].erase("e"), "model.merges[0]: \"e\" is no token");
  Json file = small_tokenizer();
  std::string text = file.dump();
  text.replace(text.find("\"vocab\":{") + 9, 0, "\"zz\":900,\"zz\":901,");
  expect_text_refused(text, "token \"zz\" appears twice");
}

TEST(TokenizerBadInputTest, Merges) {
  EXPECT_REFUSED(model(file)["merges"].push_back("h q~"), "model.merges[1]: \"q~\" is no token");
  EXPECT_REFUSED(model(file)["merges"].push_back("q~ h"), "model.merges[1]: \"q~\" is no token");
  EXPECT_REFUSED(model(file)["merges"].push_back("h h"), "model.merges[1]: \"hh\" is no token");
  EXPECT_REFUSED(model(file)["merges"].push_back("he"),
                 "model.merges[1]: \"he\" is not two tokens");
  EXPECT_REFUSED(model(file)["merges"].push_back("h e e"), "\"h e e\" is not two tokens");
  EXPECT_REFUSED(model(file)["merges"].push_back(""), "model.merges[1]: \"\" is not two tokens");
  EXPECT_REFUSED(model(file)["merges"].push_back(7), "model.merges[1] is neither a string");
  EXPECT_REFUSED(model(file)["merges"].push_back(Json::object()), "model.merges[1] is neither");
  EXPECT_REFUSED(model(file)["merges"].push_back({"h"}), "model.merges[1] has 1 parts");
  EXPECT_REFUSED(model(file)["merges"].push_back(Json::array()), "model.merges[1] has 0 parts");
  EXPECT_REFUSED(model(file)["merges"].push_back({"h", "e", "e"}), "model.merges[1] has more than");
  EXPECT_REFUSED(model(file)["merges"].push_back({"h", 7}), "model.merges[1] is neither");
  EXPECT_REFUSED(model(file)["merges"].push_back({"h", {"e"}}), "model.merges[1] is neither");
}

TEST(TokenizerBadInputTest, AddedTokens) {
  EXPECT_REFUSED(file["added_tokens"] = 7, "added_tokens is 7; it must be a list");
  EXPECT_REFUSED(file["added_tokens"][0] = 7, "added_tokens[0]: expected an object");
  EXPECT_REFUSED(file["added_tokens"][1].erase("id"), "added_tokens[1]: the field id is missing");
  EXPECT_REFUSED(file["added_tokens"][1]["id"] = -1, "added_tokens[1]: the id -1 is not");
  EXPECT_REFUSED(file["added_tokens"][1]["id"] = 1e10, "added_tokens[1]: the id 10000000000.0");
  EXPECT_REFUSED(file["added_tokens"][1]["content"] = "", "added_tokens[1]: the content is empty");
  EXPECT_REFUSED(file["added_tokens"][1].erase("content"), "the field content is missing");
  EXPECT_REFUSED(file["added_tokens"][1]["lstrip"] = "no", "lstrip is \"no\"; it must be true");
  EXPECT_REFUSED(file["added_tokens"][1]["content"] = "<|begin|>", "lists \"<|begin|>\" twice");
  EXPECT_REFUSED(file["added_tokens"][1]["id"] = 257,
                 "tokens \"<|begin|>\" and \"<|end|>\" have the same id 257");
  EXPECT_REFUSED(file["added_tokens"][1]["id"] = 65,
                 "tokens \"A\" and \"<|end|>\" have the same id");
  EXPECT_REFUSED(file["added_tokens"][1]["content"] = "A",
                 "token \"A\" has the id 65 in model.vocab and 258 in added_tokens");
  EXPECT_REFUSED(file["added_tokens"][1]["id"] = 2147483647, "the ids reach 2147483647");
}

TEST(TokenizerBadInputTest, PreTokenizer) {
  EXPECT_REFUSED(file["pre_tokenizer"] = nullptr, "there is no pre_tokenizer");
  EXPECT_REFUSED(file["pre_tokenizer"] = 7, "pre_tokenizer: expected an object, found 7");
  EXPECT_REFUSED(file["pre_tokenizer"].erase("type"), "pre_tokenizer: the field type is missing");
  EXPECT_REFUSED(file["pre_tokenizer"]["type"] = "Metaspace", "pre_tokenizer \"Metaspace\" is not");
  EXPECT_REFUSED(file["pre_tokenizer"].erase("pretokenizers"),
                 "the field pretokenizers is missing");
  EXPECT_REFUSED(remove_element(file["pre_tokenizer"]["pretokenizers"], 1),
                 "does not end in ByteLevel");
  EXPECT_REFUSED(file["pre_tokenizer"]["pretokenizers"].push_back(split(file)),
                 "the pre_tokenizer \"Split\" follows ByteLevel");
  EXPECT_REFUSED(split(file)["behavior"] = "Removed", "the behavior \"Removed\" is not supported");
  EXPECT_REFUSED(split(file)["invert"] = true, "Split with \"invert\" is not supported");
  EXPECT_REFUSED(split(file).erase("pattern"), "the field pattern is missing");
  EXPECT_REFUSED(split(file)["pattern"] = Json::object(), "the field String is missing");
  EXPECT_REFUSED((split(file)["pattern"] = {{"String", ""}}), "an empty pattern");
  EXPECT_REFUSED((split(file)["pattern"] = {{"Regex", "a("}}), "the split pattern \"a(\" is wrong");
  EXPECT_REFUSED((split(file)["pattern"] = {{"Regex", "^a"}}), "has an anchor at byte 0");
}

// Each split recurses, so a file could overflow the stack.
TEST(TokenizerBadInputTest, SplitsInSequence) {
  const auto with_splits = [](Json& file, std::size_t count) {
    Json& parts = file["pre_tokenizer"]["pretokenizers"];
    Json::Array all(count, parts[0]);
    all.push_back(parts[1]);
    parts = all;
  };
  EXPECT_EQ(message_after([&](Json& file) { with_splits(file, 64); }), "");
  for (const std::size_t count : {65, 25'000}) {
    EXPECT_EQ(message_after([&](Json& file) { with_splits(file, count); }),
              "tokenizer.json: the pre_tokenizer splits more than 64 times in sequence");
  }
}

TEST(TokenizerBadInputTest, OtherParts) {
  EXPECT_REFUSED(file["version"] = "2.0", "version is \"2.0\"; specdec knows \"1.0\"");
  EXPECT_REFUSED((file["normalizer"] = {{"type", "NFC"}}),
                 "the normalizer \"NFC\" is not supported");
  EXPECT_REFUSED(file["decoder"] = nullptr, "there is no decoder");
  EXPECT_REFUSED(file["decoder"]["type"] = "Metaspace",
                 "the decoder \"Metaspace\" is not supported");
  EXPECT_REFUSED((file["decoder"] = {{"type", "Sequence"}, {"decoders", Json::array()}}),
                 "the decoder has 0 ByteLevel parts");
  EXPECT_REFUSED(file["post_processor"] = 7, "post_processor: expected an object");
  EXPECT_REFUSED(file["post_processor"]["type"] = "BertProcessing",
                 "the post_processor \"BertProcessing\" is not supported");
}

TEST(TokenizerBadInputTest, Template) {
  EXPECT_REFUSED(around(file)["special_tokens"] = Json::object(),
                 "the template uses \"<|begin|>\", which is not in its special_tokens");
  EXPECT_REFUSED(around(file)["special_tokens"]["<|begin|>"]["ids"][0] = 999,
                 "\"<|begin|>\" has the id 999, which no token has");
  EXPECT_REFUSED(around(file)["special_tokens"]["<|begin|>"]["ids"][0] = "x",
                 "the id \"x\" is not an integer");
  EXPECT_REFUSED(around(file)["special_tokens"]["<|begin|>"].erase("ids"),
                 "the field ids is missing");
  EXPECT_REFUSED(around(file).erase("special_tokens"), "the field special_tokens is missing");
  EXPECT_REFUSED(around(file).erase("single"), "the field single is missing");
  EXPECT_REFUSED(remove_element(around(file)["single"], 1), "the template leaves out the text");
  EXPECT_REFUSED(around(file)["single"].push_back(around(file)["single"][1]),
                 "must contain the sequence A once");
  EXPECT_REFUSED(around(file)["single"][1]["Sequence"]["id"] = "B",
                 "must contain the sequence A once");
  EXPECT_REFUSED(around(file)["single"][0] = "x", "single: expected an object");
}

}  // namespace
}  // namespace specdec

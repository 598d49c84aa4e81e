// Requests from JSON Lines.
#include "stages/programs/batch/request_list.h"

#include "stages/programs/batch/request_fields.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<RunOptions> parse(std::string_view text, const RunOptions& defaults = {}) {
  return parse_requests(text, "r.jsonl", defaults);
}

// The request of one line that has a prompt and these fields: R"("top_k": 3)".
RunOptions parse_fields(const std::string& fields, const RunOptions& defaults = {}) {
  return parse("{\"prompt\": \"Hi\", " + fields + "}", defaults).at(0);
}

std::string refusal(std::string_view text) {
  return error_message([&] { parse(text); });
}

std::string field_refusal(const std::string& fields) {
  return error_message([&] { parse_fields(fields); });
}

TEST(RequestListTest, EveryFieldIsTheOptionOfItsName) {
  const RunOptions request = parse(
      R"({"id": "a", "arrival": 0.25, "chat": "Hello", "system": "Be kind.", "max_new_tokens": 40,)"
      R"( "ignore_eos": true, "stop": ["x", "yz"], "max_context": 512, "spec_length": 7,)"
      R"( "no_speculation": true, "temperature": 0.8, "top_k": 50, "top_p": 0.9,)"
      R"( "repetition_penalty": 1.1, "seed": 18446744073709551615, "draft_temperature": 0.5,)"
      R"( "acceptance": "at-least", "lenience": 1})")[0];
  const RunOptions& o = request;
  EXPECT_EQ(request.id, "a");
  EXPECT_EQ(request.arrival, 0.25);
  EXPECT_EQ(request.where, "r.jsonl:1");
  EXPECT_TRUE(o.has_chat);
  EXPECT_EQ(o.chat, "Hello");
  EXPECT_EQ(o.system, "Be kind.");
  EXPECT_EQ(o.max_new_tokens, 40);
  EXPECT_TRUE(o.ignore_eos);
  EXPECT_THAT(o.stop, ElementsAre("x", "yz"));
  EXPECT_EQ(o.max_context, 512);
  EXPECT_EQ(o.spec_length, 7);
  EXPECT_TRUE(o.no_speculation);
  EXPECT_EQ(o.sampling.temperature, 0.8);
  EXPECT_EQ(o.sampling.top_k, 50);
  EXPECT_EQ(o.sampling.top_p, 0.9);
  EXPECT_EQ(o.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(o.seed, 18446744073709551615u);
  EXPECT_EQ(o.draft_temperature, 0.5);
  EXPECT_EQ(o.acceptance, "at-least");
  EXPECT_EQ(parse_fields(R"("lenience": 0.5)").lenience, 0.5);
}

TEST(RequestListTest, WhatALineDoesNotSayIsAsOnTheCommandLine) {
  RunOptions defaults;
  defaults.max_new_tokens = 9;
  defaults.ignore_eos = true;
  defaults.stop = {"end"};
  defaults.sampling = {.temperature = 0.7, .top_k = 5, .top_p = 0.5, .repetition_penalty = 1.2};
  defaults.seed = 3;
  defaults.draft_temperature = 0.4;
  defaults.page_size = 3;
  const auto requests = parse(
      "{\"prompt\": \"a\", \"seed\": 4, \"stop\": []}\n"
      "{\"prompt\": \"b\", \"ignore_eos\": false, \"top_k\": null, \"stop\": \"one\"}\n",
      defaults);
  const RunOptions& first = requests.at(0);
  const RunOptions& second = requests.at(1);
  EXPECT_EQ(first.seed, 4u);
  EXPECT_EQ(second.seed, 3u) << "not the line's before";
  EXPECT_TRUE(first.ignore_eos);
  EXPECT_FALSE(second.ignore_eos);
  EXPECT_TRUE(first.stop.empty());
  EXPECT_THAT(second.stop, ElementsAre("one"));
  for (const RunOptions& request : requests) {
    const RunOptions& o = request;
    EXPECT_EQ(request.arrival, 0);
    EXPECT_EQ(o.max_new_tokens, 9);
    EXPECT_EQ(o.sampling.temperature, 0.7);
    EXPECT_EQ(o.sampling.top_k, 5);
    EXPECT_EQ(o.sampling.top_p, 0.5);
    EXPECT_EQ(o.sampling.repetition_penalty, 1.2);
    EXPECT_EQ(o.draft_temperature, 0.4);
    EXPECT_EQ(o.page_size, 3);
  }
}

TEST(RequestListTest, PromptsComeInFourForms) {
  const auto requests = parse(
      R"({"prompt": "Once"})"
      "\n"
      R"({"prompt_ids": [3840, 71, 0]})"
      "\n"
      R"({"chat": "Hello"})"
      "\n"
      R"({"chat": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_TRUE(requests[0].has_prompt);
  EXPECT_EQ(requests[0].prompt, "Once");
  EXPECT_THAT(requests[1].prompt_ids, ElementsAre(3840, 71, 0));
  EXPECT_FALSE(requests[1].has_prompt);
  EXPECT_TRUE(requests[2].has_chat);
  EXPECT_TRUE(requests[2].messages.empty());
  const auto& messages = requests[3].messages;
  EXPECT_TRUE(requests[3].has_chat);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].role + messages[1].role, "userassistant");
  EXPECT_EQ(messages[0].content + messages[1].content, "ab");
}

TEST(RequestListTest, IdsAreTextsOrNumbersOrCounted) {
  const auto requests = parse(
      "{\"prompt\": \"x\", \"id\": 17}\n\n  \t\r\n{\"prompt\": \"x\"}\r\n"
      "{\"prompt\": \"x\", \"id\": \"b\"}\n{\"prompt\": \"x\", \"id\": null}");
  std::vector<std::string> ids, places;
  for (const RunOptions& request : requests) {
    ids.push_back(request.id);
    places.push_back(request.where);
  }
  EXPECT_THAT(ids, ElementsAre("17", "1", "b", "3")) << "of the requests, not of the lines";
  EXPECT_THAT(places, ElementsAre("r.jsonl:1", "r.jsonl:4", "r.jsonl:5", "r.jsonl:6"));
}

TEST(RequestListTest, EveryRequestHasItsOwnId) {
  EXPECT_EQ(refusal("{\"prompt\": \"x\", \"id\": \"a\"}\n\n{\"prompt\": \"x\", \"id\": \"a\"}"),
            "r.jsonl:3: the id \"a\" is already used in line 1; every request needs its own");
  EXPECT_EQ(refusal("{\"prompt\": \"x\", \"id\": 1}\n{\"prompt\": \"x\"}"),
            "r.jsonl:2: the id \"1\" is already used in line 1; every request needs its own");
  EXPECT_EQ(field_refusal(R"("id": "")"), "r.jsonl:1: id is empty");
  EXPECT_EQ(field_refusal(R"("id": "a\nb")"),
            "r.jsonl:1: id is \"a\\nb\"; it must not have control characters");
  EXPECT_EQ(field_refusal(R"("id": 1.5)"),
            "r.jsonl:1: id is 1.5; it must be a text or a whole number");
}

TEST(RequestListBadInputTest, APromptIsNeededAndOneIsEnough) {
  EXPECT_EQ(refusal("{}"), "r.jsonl:1: no prompt; give prompt, prompt_ids or chat");
  EXPECT_EQ(refusal(R"({"prompt": null})"),
            "r.jsonl:1: no prompt; give prompt, prompt_ids or chat");
  EXPECT_EQ(refusal(R"({"prompt": "a", "chat": "b"})"), "r.jsonl:1: prompt excludes chat");
  EXPECT_EQ(refusal(R"({"chat": "b", "prompt_ids": [1]})"), "r.jsonl:1: prompt_ids excludes chat");
  EXPECT_EQ(refusal(R"({"prompt": ""})"), "r.jsonl:1: prompt is empty");
  EXPECT_EQ(refusal(R"({"prompt_ids": []})"), "r.jsonl:1: prompt_ids is empty");
  EXPECT_EQ(refusal(R"({"chat": ""})"), "r.jsonl:1: chat is empty");
  EXPECT_EQ(refusal(R"({"chat": []})"), "r.jsonl:1: chat is empty");
  EXPECT_EQ(field_refusal(R"("system": "s")"), "r.jsonl:1: system goes with chat");
  EXPECT_EQ(refusal(R"({"prompt_ids": [1, 2.5]})"),
            "r.jsonl:1: prompt_ids[1] is 2.5; it must be a token id");
  EXPECT_EQ(refusal(R"({"prompt_ids": "1,2"})"),
            "r.jsonl:1: prompt_ids is \"1,2\"; it must be a list of token ids");
  EXPECT_THAT(refusal("\n"), HasSubstr("r.jsonl: contains no request"));
  EXPECT_THAT(refusal(""), HasSubstr("r.jsonl: contains no request"));
}

TEST(RequestListBadInputTest, Chats) {
  const auto chat = [](const std::string& value) { return refusal("{\"chat\": " + value + "}"); };
  EXPECT_EQ(chat("7"), "r.jsonl:1: chat is 7; it must be a text or a list of messages");
  EXPECT_EQ(chat("[7]"), "r.jsonl:1: chat[0]: expected an object, found 7");
  EXPECT_EQ(chat(R"([{"role": "user", "content": "a"}, {"role": "user"}])"),
            "r.jsonl:1: chat[1]: the field content is missing");
  EXPECT_EQ(chat(R"([{"content": "a"}])"), "r.jsonl:1: chat[0]: the field role is missing");
  EXPECT_THAT(chat(R"([{"role": "pirate", "content": "a"}])"),
              HasSubstr("r.jsonl:1: message 0 has the role \"pirate\""));
  EXPECT_THAT(chat(R"([{"role": "user", "content": "a"}], "system": "b")"),
              HasSubstr("r.jsonl:1: system goes with a chat that is a text"));
}

TEST(RequestListBadInputTest, UnknownFieldsListTheKnownOnes) {
  const std::string message = field_refusal("\"max_tokens\": 3");
  EXPECT_THAT(message,
              HasSubstr("r.jsonl:1: there is no field \"max_tokens\"; a request has id, "));
  EXPECT_THAT(message, HasSubstr(", max_new_tokens, "));
  EXPECT_THAT(message, HasSubstr(", lenience"));
  EXPECT_THAT(field_refusal("\"nothing\": null"), HasSubstr("no field \"nothing\""));
  EXPECT_THAT(field_refusal("\"\": 1"), HasSubstr("no field \"\""));
  EXPECT_THAT(field_refusal("\"max-new-tokens\": 1"), HasSubstr("no field \"max-new-tokens\""));
  EXPECT_THAT(field_refusal("\"dump\": \"f\""), HasSubstr("no field \"dump\"")) << "nor an option";
  EXPECT_THAT(field_refusal(R"("a\nb": 1)"), HasSubstr(R"(no field "a\nb")"));
}

TEST(RequestListBadInputTest, FieldsOfTheRunSaySo) {
  for (const char* field : {"target", "page_size", "draft", "device", "max_batch", "cache",
                            "output", "no_prefix_cache"}) {
    const std::string message = field_refusal(fmt::format("\"{}\": 1", field));
    EXPECT_THAT(message, HasSubstr(fmt::format("r.jsonl:1: {} belongs to the whole run", field)));
  }
  EXPECT_THAT(field_refusal("\"page_size\": 1"), HasSubstr("give --page-size on the command line"));
}

TEST(RequestListBadInputTest, FieldsAreTheOptionsOfRequests) {
  RunOptions options;
  int fields = 0;
  for (const Option& option : all_options(6, options)) {
    const std::string message = field_refusal(fmt::format("\"{}\": [[]]", option.field()));
    const bool of_run = !option.traits.per_request && option.traits.stages.has(6);
    const char* words = of_run                      ? "belongs to the whole run"
                        : option.traits.per_request ? "r.jsonl:1: "
                                                    : "there is no field";
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_THAT(message, HasSubstr(option.field()));
    fields += option.traits.per_request;
  }
  EXPECT_EQ(fields, 28);
}

TEST(RequestListBadInputTest, WrongTypesNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("max_new_tokens": "40")", "max_new_tokens is \"40\"; it must be an integer"},
      {R"("max_new_tokens": 40.5)", "max_new_tokens is 40.5; it must be an integer"},
      {R"("max_context": true)", "max_context is true; it must be an integer"},
      {R"("spec_length": "five")", "spec_length is \"five\"; it must be an integer"},
      {R"("ignore_eos": 1)", "ignore_eos is 1; it must be true or false"},
      {R"("stop": 7)", "stop is 7; it must be a text or a list of texts"},
      {R"("stop": ["a", 7])", "stop is [\"a\",7]; it must be a text or a list of texts"},
      {R"("temperature": "hot")", "temperature is \"hot\"; it must be a number"},
      {R"("top_p": [])", "top_p is []; it must be a number"},
      {R"("repetition_penalty": {})", "repetition_penalty is {}; it must be a number"},
      {R"("seed": -1)", "seed is -1; it must be a whole number from 0 to 2^64 - 1"},
      {R"("seed": 18446744073709551616)", "it must be a whole number from 0 to 2^64 - 1"},
      {R"("acceptance": 1)", "acceptance is 1; it must be a string"},
      {R"("lenience": false)", "lenience is false; it must be a number"},
      {R"("arrival": "now")", "arrival is \"now\"; it must be a number"},
  };
  for (const auto& [fields, message] : cases) {
    EXPECT_THAT(field_refusal(fields), HasSubstr("r.jsonl:1: ")) << fields;
    EXPECT_THAT(field_refusal(fields), HasSubstr(message));
  }
}

TEST(RequestListBadInputTest, RangesAreThoseOfTheCommandLine) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("max_new_tokens": 0)",
       "max_new_tokens is 0; it takes a whole number from 1 to 1073741824"},
      {R"("max_context": 0)", "max_context is 0; it takes a whole number from 1 to"},
      {R"("spec_length": 33)", "spec_length is 33; it takes a whole number from 1 to 32"},
      {R"("stop": "")", "stop is empty"},
      {R"("stop": ["a", ""])", "stop is empty"},
      {R"("temperature": -1)", "temperature is -1; it takes a number of at least 0"},
      {R"("top_k": -1)", "top_k is -1; it takes a whole number from 0 to 2147483647"},
      {R"("top_p": 0)", "top_p is 0; it takes a number above 0 and at most 1"},
      {R"("temperature": 0, "top_p": 2)", "top_p is 2; it takes a number above 0 and at most 1"},
      {R"("repetition_penalty": 1e-308)", "repetition_penalty is 1e-308; it takes a number"},
      {R"("acceptance": "maybe")", "acceptance maybe: there is no such rule; there are rejection"},
      {R"("lenience": 0.5, "acceptance": "coupled")", "lenience belongs to acceptance rejection"},
      {R"("arrival": -0.5)", "arrival is -0.5; it takes a number of seconds from 0 to 1000000"},
      {R"("arrival": 1e300)", "arrival is 1e+300; it takes a number of seconds from 0 to 1000000"},
  };
  for (const auto& [fields, message] : cases) {
    EXPECT_THAT(field_refusal(fields), HasSubstr(fmt::format("r.jsonl:1: {}", message))) << fields;
    EXPECT_THAT(field_refusal(fields), Not(HasSubstr("--"))) << "a line has fields, not options";
  }
  for (const char* good : {R"("max_new_tokens": 1)", R"("max_new_tokens": 1073741824)",
                           R"("spec_length": 1)", R"("spec_length": 32)", R"("top_p": 1)",
                           R"("temperature": 0)", R"("seed": 0)", R"("arrival": 0)"}) {
    EXPECT_EQ(field_refusal(good), "") << good;
  }
}

// Otherwise the first line would be blamed for --top-p 2.
TEST(RequestListBadInputTest, BadDefaultsAreNoLinesFault) {
  RunOptions defaults;
  defaults.sampling.top_p = 2;
  EXPECT_THAT(error_message([&] { parse(R"({"prompt": "a"})", defaults); }),
              ::testing::StartsWith("--top-p is 2;"));
}

TEST(RequestListBadInputTest, LinesThatAreNoObjects) {
  const std::string good = "{\"prompt\": \"x\"}\n";
  EXPECT_EQ(refusal(good + "{\"prompt\": oops}"), "r.jsonl:2: not valid JSON at column 12");
  EXPECT_THAT(refusal(good + "{\"prompt\":\n \"x\"}"), HasSubstr("r.jsonl:2: not valid JSON"));
  EXPECT_THAT(refusal(good + "{} {}"), HasSubstr("r.jsonl:2: not valid JSON at column 4"));
  EXPECT_EQ(refusal(good + "[1]"), "r.jsonl:2: expected an object, found [1]");
  EXPECT_EQ(refusal(good + "{\"prompt\": \"caf\xe9\"}"), "r.jsonl:2: not UTF-8 at byte 15");
  EXPECT_THAT(refusal(good + R"({"prompt": "\ud800"})"), HasSubstr("r.jsonl:2: not valid JSON"));
  EXPECT_THAT(refusal(good + R"({"prompt": "a", "prompt": "b"})"), HasSubstr("occurs twice"));
  EXPECT_THAT(refusal(good + R"({"prompt": "a", "top_p": 1e999})"), HasSubstr("out of range"));
}

TEST(RequestListBadInputTest, DeepNestingIsNoStackOverflow) {
  constexpr std::size_t kDepth = 1'000'000;
  const std::string brackets = std::string(kDepth, '[') + std::string(kDepth, ']');
  EXPECT_EQ(refusal("{\"id\": " + brackets + "}"),
            "r.jsonl:1: JSON that is nested more than 100 levels deep");
}

TEST(RequestListTest, MessagesNameFieldsButKeepOptionsThatNoRequestHas) {
  EXPECT_EQ(with_field_names("--top-p is 2: use --pages or --rows-change-texts"),
            "top_p is 2: use --pages or --rows-change-texts");
  EXPECT_EQ(with_field_names("reduce --max-new-tokens, -- or --"),
            "reduce max_new_tokens, -- or --");
  EXPECT_EQ(field_in("--top-p is 2"), "top_p");
  EXPECT_EQ(field_in("--rows: as --top-p"), "");
  EXPECT_EQ(field_in("the prompt"), "");
}

TEST(RequestListTest, FilesAreReadByName) {
  const TemporaryDirectory directory;
  const auto path = directory.write("some.jsonl", "{\"prompt\": \"x\"}\n{\"prompt\": 1}\n");
  EXPECT_EQ(error_message([&] { read_requests(path.string(), {}); }),
            path.string() + ":2: prompt is 1; it must be a string");
  EXPECT_THAT(error_message([&] { read_requests("/nowhere.jsonl", {}); }),
              HasSubstr("/nowhere.jsonl: cannot be opened"));
  directory.write("some.jsonl", "{\"prompt\": \"x\"}\n");
  EXPECT_EQ(read_requests(path.string(), {}).size(), 1u);
}

TEST(RequestListBadInputTest, Stage6HasNoAuto) {
  RunOptions defaults;
  defaults.stage = 6;
  EXPECT_EQ(error_message([&] { parse_fields(R"("spec_length": "auto")", defaults); }),
            "r.jsonl:1: this stage has no spec_length auto; 07_adaptive_drafting has it");
}

}  // namespace
}  // namespace specdec

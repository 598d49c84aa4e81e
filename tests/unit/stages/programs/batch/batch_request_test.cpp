// A line of JSON becomes a request for an engine.
#include "common/embedded_models.h"
#include "stages/programs/batch/queue_inbox.h"
#include "stages/programs/batch/request_list.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;

class BatchRequestTest : public ::testing::Test {
 protected:
  static BatchRequest make(const std::string& fields) {
    return to_batch_request(target(), parse_requests("{" + fields + "}", "r.jsonl", {})[0]);
  }
  static const ModelFiles& target() {
    static const ModelFiles files = open_model(embedded_target().string());
    return files;
  }
};

TEST_F(BatchRequestTest, HasWhatTheOptionsSay) {
  const BatchRequest request =
      make(R"("prompt_ids": [3840, 71, 9], "max_new_tokens": 11, "stop": "x", "seed": 5,)"
           R"( "temperature": 0.5, "acceptance": "coupled", "spec_length": 3)");
  EXPECT_THAT(request.generation.prompt, ElementsAre(3840, 71, 9));
  EXPECT_EQ(request.generation.max_new_tokens, 11);
  EXPECT_EQ(request.generation.max_context, 3 + 11);
  EXPECT_EQ(request.generation.eos_ids, target().checkpoint.config().eos_ids);
  EXPECT_THAT(request.generation.stop, ElementsAre("x"));
  EXPECT_EQ(request.speculation.sampling.temperature, 0.5);
  EXPECT_EQ(request.speculation.draft_temperature, 0.5) << "as the target's";
  EXPECT_EQ(request.speculation.rule->name, "coupled");
  EXPECT_EQ(request.seed, 5u);
  EXPECT_EQ(request.spec_length, 3);
  EXPECT_EQ(request.context_limit, 2048) << "K does not depend on max_new_tokens";
}

TEST_F(BatchRequestTest, AdaptsWhereItSaysSo) {
  RunOptions fixed, automatic;
  fixed.stage = automatic.stage = 7;
  automatic.auto_spec_length = true;
  automatic.spec_length = 16;
  const auto of = [&](const std::string& field, const RunOptions& defaults) {
    const auto requests =
        parse_requests(R"({"prompt_ids": [1])" + field + "}", "requests.jsonl", defaults);
    const BatchRequest request = to_batch_request(target(), requests[0]);
    return std::pair(request.spec_length, requests[0].auto_spec_length);
  };
  EXPECT_EQ(of("", fixed), std::pair(5, false));
  EXPECT_EQ(of(R"(, "spec_length": "auto")", fixed), std::pair(16, true));
  EXPECT_EQ(of("", automatic), std::pair(16, true));
  EXPECT_EQ(of(R"(, "spec_length": 3)", automatic), std::pair(3, false));
  EXPECT_EQ(of(R"(, "no_speculation": true)", automatic), std::pair(0, true));
}

TEST_F(BatchRequestTest, LimitsAndPlainDecoding) {
  const BatchRequest request =
      make(R"("prompt_ids": [1], "max_context": 200, "no_speculation": true, "ignore_eos": true)");
  EXPECT_EQ(request.spec_length, 0);
  EXPECT_EQ(request.context_limit, 200);
  EXPECT_TRUE(request.generation.eos_ids.empty());
  EXPECT_EQ(make(R"("prompt": "x", "temperature": 1, "draft_temperature": 0)")
                .speculation.draft_temperature,
            0);
}

TEST_F(BatchRequestTest, AChatOfMessagesIsTheChat) {
  const auto prompt = [](const std::string& fields) { return make(fields).generation.prompt; };
  EXPECT_EQ(
      prompt(R"("chat": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}])"),
      prompt(R"("chat": "U", "system": "S")"));
  const std::vector<ChatMessage> turns = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}};
  EXPECT_EQ(prompt(R"("chat": [{"role": "user", "content": "a"}, {"role": "assistant",)"
                   R"( "content": "b"}, {"role": "user", "content": "c"}])"),
            target().tokenizer->encode(render_chat(chat_format(target()), turns), false));
}

TEST_F(BatchRequestTest, AChatEndsWithItsEndOfTurn) {
  ModelFiles files = open_model(embedded_target().string());
  RunOptions options;
  options.chat = options.prompt = "Hi";
  options.has_chat = true;
  const auto ends = [&] { return to_batch_request(files, options).generation.eos_ids; };
  EXPECT_THAT(ends(), ElementsAre(3841, 3848, 3849)) << "the config's, <|eot_id|> among them";
  files.chat.format = &find_chat_format("Llama 3");
  ChatFormat other = *files.chat.format;
  other.end_of_turn = "<|end_header_id|>";
  files.chat.format = &other;
  EXPECT_THAT(ends(), ElementsAre(3841, 3848, 3849, 3847));
  options.ignore_eos = true;
  EXPECT_THAT(ends(), ElementsAre());
  options.ignore_eos = options.has_chat = false;
  options.has_prompt = true;
  EXPECT_THAT(ends(), ElementsAre(3841, 3848, 3849)) << "a text is no chat";
}

TEST_F(BatchRequestTest, RefusesAChatWhoseFormatIsUnknown) {
  ModelFiles files = open_model(embedded_target().string());
  files.chat = {nullptr, "t.json: the chat template is unknown"};
  RunOptions options;
  options.chat = "Hi";
  options.has_chat = true;
  EXPECT_EQ(error_message([&] { to_batch_request(files, options); }),
            "--chat: t.json: the chat template is unknown; render the chat as the model's authors "
            "do, and give the text as --prompt");
}

TEST_F(BatchRequestTest, RefusesWhatDoesNotFitTheModel) {
  EXPECT_ERROR(make(R"("prompt_ids": [4096])"), "prompt id 4096 is outside the vocabulary");
  EXPECT_ERROR(make(R"("prompt_ids": [1, 2], "max_new_tokens": 2047)"), "need 2049 positions");
  EXPECT_ERROR(make(R"("prompt": "x", "max_context": 4096)"), "beyond the model's 2048 positions");
  RunOptions options;
  options.prompt_ids = {1};
  options.sampling.top_p = 2;
  EXPECT_ERROR(to_batch_request(target(), options), "--top-p is 2");
}

}  // namespace
}  // namespace specdec

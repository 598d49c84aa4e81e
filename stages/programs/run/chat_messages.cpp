#include "stages/programs/run/chat_messages.h"

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"

namespace specdec {

std::vector<ChatMessage> one_question(const std::string& user, const std::string& system) {
  if (user.empty()) fail("the prompt is empty");
  std::vector<ChatMessage> messages;
  if (!system.empty()) messages.push_back({"system", system});
  messages.push_back({"user", user});
  return messages;
}

std::vector<ChatMessage> read_messages(const Json& list, const std::string& name) {
  std::vector<ChatMessage> messages;
  for (const Json& entry : list) {
    const JsonObject message(entry, fmt::format("{}[{}]", name, messages.size()));
    messages.push_back({message.required_string("role"), message.required_string("content")});
  }
  return messages;
}

std::vector<ChatMessage> read_chat_file(const std::string& path) {
  const Json list = parse_json(read_text_file(path), path);
  if (!list.is_array()) {
    fail("{}: a chat is a list of messages, as [{{\"role\": \"user\", \"content\": \"Hello!\"}}]",
         path);
  }
  std::vector<ChatMessage> messages = read_messages(list, path + ": message");
  try {
    check_chat(messages);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
  return messages;
}

}  // namespace specdec

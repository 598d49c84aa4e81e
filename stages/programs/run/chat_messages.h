#pragma once
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/tokenizer/chat.h"

namespace specdec {

// A user's message, after the system's unless that is empty.
std::vector<ChatMessage> one_question(const std::string& user, const std::string& system);

// A list as [{"role": "user", "content": "Hello!"}]; other fields are ignored. `name`: what
// messages call the list; its first element is then name[0]. Throws Error for what is no such list.
std::vector<ChatMessage> read_messages(const Json& list, const std::string& name);

// The conversation in a file that holds such a list. Throws Error, naming the file, also for what
// is no conversation (check_chat).
std::vector<ChatMessage> read_chat_file(const std::string& path);

}  // namespace specdec

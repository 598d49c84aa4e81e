#pragma once
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/tokenizer/chat.h"

namespace specdec {

// A user's message, after the system's unless that is empty. Throws Error where `user` is empty.
std::vector<ChatMessage> one_question(const std::string& user, const std::string& system);

// A list as [{"role": "user", "content": "Hello!"}]; other fields are ignored. `name`: what
// messages call the list; its first element is then name[0]. Throws Error for an element that is no
// such object. REQUIRES: list.is_array().
std::vector<ChatMessage> read_messages(const Json& list, const std::string& name);

// The conversation in a file that contains such a list. Throws Error, with the file's name, for any
// other content, and where check_chat() does.
std::vector<ChatMessage> read_chat_file(const std::string& path);

}  // namespace specdec

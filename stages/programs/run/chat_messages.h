#pragma once
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/tokenizer/chat.h"

namespace specdec {

// A user's message, after the system's unless that is empty. Throws Error if `user` is empty.
std::vector<ChatMessage> one_question(const std::string& user, const std::string& system);

// Reads a list such as [{"role": "user", "content": "Hello!"}]; other fields are ignored. `name`:
// the list's name in error messages; its first element is then name[0]. Throws Error for an element
// that is not such an object. REQUIRES: list.is_array().
std::vector<ChatMessage> read_messages(const Json& list, const std::string& name);

// The conversation in a file that contains such a list. Throws Error, with the file's name, for any
// other content, and if check_chat() does.
std::vector<ChatMessage> read_chat_file(const std::string& path);

}  // namespace specdec

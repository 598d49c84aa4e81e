#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/tokenizer/split_regex.h"

#include <array>
#include <new>

#include <pcre2.h>

#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/tokenizer/regex_translation.h"

namespace specdec {
namespace {

// Where a search gives up. Ordinary patterns stay far below; these stop what would take minutes or
// gigabytes, as a hostile pattern in a tokenizer.json could.
constexpr std::uint32_t kMatchLimit = 10'000'000;  // steps of backtracking for one match
constexpr std::uint32_t kHeapLimit = 64 * 1024;    // KiB

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatchData>;

// One for each call of split: what makes it safe in several threads.
MatchData new_match_data() {
  MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  return data;
}

}  // namespace

void SplitRegex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

void SplitRegex::FreeContext::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}

SplitRegex SplitRegex::from_pattern(std::string_view pattern) {
  return SplitRegex(pattern, translate_regex(pattern), PCRE2_UTF | PCRE2_UCP);
}

SplitRegex SplitRegex::from_literal(std::string_view literal) {
  return SplitRegex(literal, literal, PCRE2_UTF | PCRE2_LITERAL);
}

SplitRegex::SplitRegex(std::string_view name, std::string_view pattern, unsigned options)
    : name_(in_quotes(name)) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> settings(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  context_.reset(pcre2_match_context_create(nullptr));
  if (!settings || !context_) throw std::bad_alloc();
  pcre2_set_newline(settings.get(), PCRE2_NEWLINE_LF);  // what . does not match
  pcre2_set_match_limit(context_.get(), kMatchLimit);
  pcre2_set_heap_limit(context_.get(), kHeapLimit);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(
      pcre2_compile(units(pattern), pattern.size(), options, &error, &offset, settings.get()));
  if (!code_) {
    const std::size_t begin = offset < 20 ? 0 : offset - 20;
    fail("the split pattern {} is wrong: {}, after {}", name_, message_of(error),
         in_quotes(pattern.substr(begin, offset - begin)));
  }
  // Several times faster where PCRE2 can do it; where not, it interprets.
  compiled_to_machine_code_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

std::optional<SplitRegex::Match> SplitRegex::search(std::string_view text, std::size_t from,
                                                    pcre2_real_match_data_8* data) const {
  // Without NO_UTF_CHECK each search would validate the text from its start: quadratic.
  const auto interpret = [&](std::uint32_t options) {
    return pcre2_match(code_.get(), units(text), text.size(), from, options | PCRE2_NO_UTF_CHECK,
                       data, context_.get());
  };
  int result = compiled_to_machine_code_ ? pcre2_jit_match(code_.get(), units(text), text.size(),
                                                           from, 0, data, context_.get())
                                         : interpret(0);
  // The machine code has 32 KiB of stack; the interpreter takes its memory from the heap.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = interpret(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    fail("the split pattern {} gives up at byte {} of the text: {}", name_, from,
         message_of(result));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data);
  return Match{offsets[0], offsets[1]};
}

void SplitRegex::split(std::string_view text,
                       const std::function<void(std::string_view)>& sink) const {
  const MatchData data = new_match_data();
  const auto emit = [&](std::size_t begin, std::size_t end) {
    if (begin < end) sink(text.substr(begin, end - begin));
  };
  std::size_t done = 0;  // the text before is split
  std::size_t from = 0;
  bool matched = false;  // something ended at `done`
  while (from <= text.size()) {
    const std::optional<Match> match = search(text, from, data.get());
    if (!match) break;
    if (matched && match->begin == match->end && match->end == done) {
      // An empty match where the last match ended splits nothing; look one character further.
      if (from == text.size()) break;
      from += next_utf8(text.substr(from)).length;
      continue;
    }
    emit(done, match->begin);
    emit(match->begin, match->end);
    done = from = match->end;
    matched = true;
  }
  emit(done, text.size());
}

bool SplitRegex::matches(std::string_view text) const {
  return search(text, 0, new_match_data().get()).has_value();
}

}  // namespace specdec

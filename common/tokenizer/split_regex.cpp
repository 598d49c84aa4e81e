#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/tokenizer/split_regex.h"

#include <array>
#include <new>
#include <optional>
#include <utility>

#include <pcre2.h>

#include "common/base/error.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

// A search gives up at these limits, so that a hostile pattern cannot take hours or gigabytes.
// PCRE2 counts the steps of backtracking anew at each place where a match could begin. Up to the
// first limit, steps are free; further steps are charged to the allowance of the whole text.
// Published patterns need a few steps per place, and about two per character of a long run of
// capitals.
constexpr std::uint32_t kFreeStepsPerPlace = 1000;
constexpr std::uint64_t kStepsPerText = 10'000;
constexpr std::uint64_t kStepsPerCharacter = 20;
constexpr std::uint32_t kHeapLimit = 64 * 1024;  // KiB

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

MatchData new_match_data() {
  MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  return data;
}

// The bytes of the first `count` characters. REQUIRES: text is UTF-8 and has that many characters.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  std::size_t bytes = 0;
  for (; count > 0; --count) {
    const auto lead = static_cast<unsigned char>(text[bytes]);
    bytes += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  }
  return bytes;
}

}  // namespace

// One call of split: finds the matches in one text. Positions are counted in characters.
class SplitRegex::Search {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  Search(const SplitRegex& regex, std::string_view text)
      : regex_(regex),
        kinds_(regex.kinds_.of(text)),
        data_(new_match_data()),
        steps_left_(kStepsPerText + kStepsPerCharacter * kinds_.size()) {}

  std::size_t size() const { return kinds_.size(); }

  // The first match that begins at `from` or later. Errors: it takes too many steps.
  std::optional<Match> next(std::size_t from) {
    const int result = regex_.compiled_to_machine_code_
                           ? pcre2_jit_match(regex_.code_.get(), units(kinds_), kinds_.size(), from,
                                             0, data_.get(), regex_.context_.get())
                           : interpret(from, 0, regex_.context_.get());
    // The machine code has 32 KiB of stack; the interpreter takes its memory from the heap.
    if (result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_JIT_STACKLIMIT) {
      return next_with_more_steps(from);
    }
    return match_of(result, from);
  }

 private:
  int interpret(std::size_t from, std::uint32_t options, pcre2_match_context* context) {
    return pcre2_match(regex_.code_.get(), units(kinds_), kinds_.size(), from,
                       options | PCRE2_NO_JIT, data_.get(), context);
  }

  std::optional<Match> match_of(int result, std::size_t from) const {
    if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (result < 0) {
      fail("the split pattern {} gives up at character {} of the text: {}", regex_.name_, from,
           message_of(result));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    return Match{offsets[0], offsets[1]};
  }

  // Tries each place in turn, with a limit that grows until it suffices.
  std::optional<Match> next_with_more_steps(std::size_t from) {
    for (; from <= kinds_.size(); ++from) {
      int result = PCRE2_ERROR_MATCHLIMIT;
      for (std::uint64_t limit = kFreeStepsPerPlace; result == PCRE2_ERROR_MATCHLIMIT; limit *= 2) {
        if (limit > kFreeStepsPerPlace) {
          if (limit > steps_left_) break;
          steps_left_ -= limit;
        }
        const Context context = new_context(limit);
        result = interpret(from, PCRE2_ANCHORED, context.get());
      }
      if (const auto match = match_of(result, from)) return match;
    }
    return std::nullopt;
  }

  const SplitRegex& regex_;
  std::string kinds_;
  MatchData data_;
  std::uint64_t steps_left_;
};

void SplitRegex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

void SplitRegex::FreeContext::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}

SplitRegex::Context SplitRegex::new_context(std::uint32_t match_limit) {
  Context context(pcre2_match_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), match_limit);
  pcre2_set_heap_limit(context.get(), kHeapLimit);
  return context;
}

SplitRegex SplitRegex::from_pattern(std::string_view pattern) {
  return SplitRegex(pattern, translate_regex(pattern));
}

SplitRegex SplitRegex::from_literal(std::string_view literal) {
  return SplitRegex(literal, translate_literal(literal));
}

SplitRegex::SplitRegex(std::string_view pattern, TranslatedRegex translated)
    : name_(in_quotes(pattern)),
      kinds_(std::move(translated.kinds)),
      context_(new_context(kFreeStepsPerPlace)) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(units(translated.pattern), translated.pattern.size(), 0, &error,
                            &offset, nullptr));
  if (!code_) {
    const std::size_t end = translated.origin.at(offset);
    const std::size_t begin = end < 20 ? 0 : end - 20;
    fail("the split pattern {} is wrong: {}, after {}", name_, message_of(error),
         in_quotes(pattern.substr(begin, end - begin)));
  }
  // Machine code is several times faster; if PCRE2 cannot compile it, it interprets the pattern.
  // Its machine code for (?>) with several alternatives is wrong: in 10.42, (?>[ab]*|.)c
  // matches " c" in "ab c".
  compiled_to_machine_code_ = translated.pattern.find("(?>") == std::string::npos &&
                              pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

void SplitRegex::split(std::string_view text,
                       const std::function<void(std::string_view)>& sink) const {
  Search search(*this, text);
  std::size_t done = 0;  // characters that are split, and no longer in `text`
  const auto emit_until = [&](std::size_t end) {
    if (end == done) return;
    const std::size_t bytes = bytes_of(text, end - done);
    sink(text.substr(0, bytes));
    text.remove_prefix(bytes);
    done = end;
  };
  std::size_t from = 0;
  bool matched = false;  // a match ended at `done`
  while (from <= search.size()) {
    const std::optional<Search::Match> match = search.next(from);
    if (!match) break;
    if (matched && match->begin == match->end && match->end == done) {
      ++from;  // an empty match where the last match ended splits nothing
      continue;
    }
    emit_until(match->begin);
    emit_until(match->end);
    from = done;
    matched = true;
  }
  emit_until(search.size());
}

}  // namespace specdec

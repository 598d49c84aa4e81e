#include "tests/benchmarks/peers/peer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

namespace specdec::peers {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void emit(Text& text, std::vector<int>& context, const Choice& choice) {
  text.tokens.push_back(choice.token);
  text.margins.push_back(choice.margin);
  context.push_back(choice.token);
}

// All of the prompt but its last token, which is pending.
void prefill(PeerModel& model, std::span<const int> prompt) {
  model.truncate(0);
  if (prompt.size() > 1) model.forward(prompt.first(prompt.size() - 1), 0);
}

std::span<const int> uncached(const PeerModel& model, std::span<const int> context) {
  return context.subspan(static_cast<std::size_t>(model.length()));
}

std::vector<int> drafts(PeerModel& draft, std::span<const int> context, int K) {
  std::vector<int> all(context.begin(), context.end());
  for (int i = 0; i < K; ++i) {
    draft.forward(uncached(draft, all), 1);
    all.push_back(choose(draft.logits(0)).token);
  }
  all.erase(all.begin(), all.begin() + std::ssize(context));
  return all;
}

nlohmann::json json_of(const Text& text) {
  return {{"seconds", text.seconds},
          {"rounds", text.rounds},
          {"tokens", text.tokens},
          {"margins", text.margins}};
}

// Null where it does not know the order.
nlohmann::json answer(std::istream& order, PeerModel& target, PeerModel* draft) {
  std::string name;
  order >> name;
  const std::vector<int> numbers{std::istream_iterator<int>(order), {}};
  const auto prompt = [&](std::size_t first) { return std::span(numbers).subspan(first); };
  if (name == "pass" && numbers.size() == 4) {
    return {{"seconds", passes(target, numbers[0], numbers[1], numbers[2], numbers[3])}};
  }
  if (name == "plain" && numbers.size() > 1) return json_of(plain(target, prompt(1), numbers[0]));
  if (name == "draft" && draft != nullptr && numbers.size() > 1) {
    return json_of(plain(*draft, prompt(1), numbers[0]));
  }
  if (name == "speculate" && draft != nullptr && numbers.size() > 2) {
    return json_of(speculate(target, *draft, prompt(2), numbers[0], numbers[1]));
  }
  return nullptr;
}

}  // namespace

Choice choose(std::span<const float> logits) {
  Choice best;
  float first = -std::numeric_limits<float>::infinity(), second = first;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] > first) {
      second = first;
      first = logits[id];
      best.token = static_cast<int>(id);
    } else {
      second = std::max(second, logits[id]);
    }
  }
  best.margin = first - second;
  return best;
}

Text plain(PeerModel& target, std::span<const int> prompt, int count) {
  Text text;
  std::vector<int> context(prompt.begin(), prompt.end());
  prefill(target, prompt);
  const auto start = Clock::now();
  for (; text.rounds < count; ++text.rounds) {
    target.forward(uncached(target, context), 1);
    emit(text, context, choose(target.logits(0)));
  }
  text.seconds = seconds_since(start);
  return text;
}

Text speculate(PeerModel& target, PeerModel& draft, std::span<const int> prompt, int count, int K) {
  Text text;
  std::vector<int> context(prompt.begin(), prompt.end());
  prefill(target, prompt);
  prefill(draft, prompt);
  const auto start = Clock::now();
  for (; std::ssize(text.tokens) < count; ++text.rounds) {
    const int begin = target.length();
    const std::vector<int> drafted = drafts(draft, context, K);
    std::vector<int> verified = {context.back()};
    verified.insert(verified.end(), drafted.begin(), drafted.end());
    target.forward(verified, K + 1);
    int accepted = 0;
    Choice choice = choose(target.logits(0));
    while (accepted < K && choice.token == drafted[static_cast<std::size_t>(accepted)]) {
      emit(text, context, choice);
      choice = choose(target.logits(++accepted));
    }
    emit(text, context, choice);
    target.truncate(begin + accepted + 1);
    draft.truncate(std::min(begin + K, begin + accepted + 1));
  }
  text.seconds = seconds_since(start);
  return text;
}

std::vector<double> passes(PeerModel& model, int rows, int logits_rows, int cached, int repeats) {
  const auto tokens = [](int count) {
    std::vector<int> ids;
    for (int i = 0; i < count; ++i) ids.push_back(i * 37 % 3000);
    return ids;
  };
  const std::vector<int> before = tokens(cached), now = tokens(rows);
  model.truncate(0);
  if (cached > 0) model.forward(before, 0);
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    model.forward(now, logits_rows);
    if (i > 0) seconds.push_back(seconds_since(start));
    model.truncate(cached);
  }
  return seconds;
}

int serve(PeerModel& target, PeerModel* draft) {
  std::cout << R"({"ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream order(line);
    const nlohmann::json found = answer(order, target, draft);
    if (found.is_null()) {
      std::cerr << "no such order: " << line << "\n";
      return 2;
    }
    std::cout << found << std::endl;
  }
  return 0;
}

}  // namespace specdec::peers

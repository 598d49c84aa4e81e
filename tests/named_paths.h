#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common/sampling/random_source.h"
#include "stages/00_toy_speculation/enumeration.h"

namespace specdec {

// Every path of several requests, where draws have names as in the program: a name that is asked
// for again has the same number again. Of a name's number the walk knows an interval, which each
// decision narrows, so the paths are exact and there are no more than the decisions make.
class NamedPaths {
 public:
  // The draws of a request.
  RandomSource& of(std::size_t request) {
    while (sources_.size() <= request) sources_.emplace_back(*this, sources_.size());
    return sources_[request];
  }

  double probability() const { return paths_.probability(); }
  // Prepares the next walk. False when there is none.
  bool next() {
    known_.clear();
    return paths_.next();
  }

 private:
  using Name = std::tuple<std::size_t, int, Purpose, int>;
  using Interval = std::pair<double, double>;
  static constexpr double kNothing = 1e-12;  // rounding

  class Source final : public RandomSource {
   public:
    Source(NamedPaths& paths, std::size_t request) : paths_(paths), request_(request) {}

    TokenId token(std::span<const double> probs, int position, Purpose purpose,
                  int index) override {
      return paths_.choose({request_, position, purpose, index}, probs);
    }
    bool accept(double probability, int position, int index) override {
      const double options[] = {std::min(1.0, probability), 1 - std::min(1.0, probability)};
      return paths_.choose({request_, position, Purpose::kAccept, index}, options) == 0;
    }
    TokenId race(std::span<const double>, int) override {
      SPECDEC_CHECK(false, "no races, which have too many paths");
      return 0;
    }

   private:
    NamedPaths& paths_;
    std::size_t request_;
  };

  // By inversion: option i is an interval as long as its probability.
  TokenId choose(const Name& name, std::span<const double> probs) {
    Interval& known = known_.try_emplace(name, 0.0, 1.0).first->second;
    double total = 0, end = 0;
    for (const double prob : probs) total += prob;
    std::vector<Interval> parts;
    toy::Probs options;
    for (const double prob : probs) {
      const double begin = end;
      end += prob / total;
      parts.emplace_back(std::max(begin, known.first), std::min(end, known.second));
      const double length = parts.back().second - parts.back().first;
      options.push_back(length > kNothing ? length / (known.second - known.first) : 0);
    }
    const TokenId chosen = paths_.token(options, 0, Purpose::kDraft);
    known = parts[static_cast<std::size_t>(chosen)];
    return chosen;
  }

  toy::EveryPath paths_;
  std::map<Name, Interval> known_;  // in this walk
  std::deque<Source> sources_;
};

}  // namespace specdec

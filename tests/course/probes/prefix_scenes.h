#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/course/probes/engine_scenes.h"
#include "tests/course/probes/facts.h"

// What a prefix cache finds, for the probe of stage 6.
namespace specdec::course {

inline void finds_the_longest_prefix(std::uint64_t seed) {
  World world(seed, 40, 40);
  PrefixCache prefixes(world.target_cache, false);
  const Tokens prompt = tokens_of(seed, 14, kVocab);
  const SequenceId first = prefixes.create(prompt);
  world.target.forward(Segment{first, prompt, 0}, {});
  prefixes.add(first, prompt);
  const Tokens branch =
      joined({prompt.begin(), prompt.begin() + 8}, tokens_of(seed + 1, 6, kVocab));
  const SequenceId second = prefixes.create(branch);
  fact("tokens found of a prompt that shares 8 tokens with one of 14", world.target.length(second));
  world.target.forward(Segment{second, uncached(world.target, second, branch), 0}, {});
  prefixes.add(second, branch);
  const auto found = [&](const std::string& what, const Tokens& tokens) {
    fact(fmt::format("tokens found of {}", what), prefixes.match_length(tokens));
  };
  found("the first prompt once more", prompt);
  found("the second prompt once more", branch);
  found("its first 12 tokens, the last of which is to be computed",
        {prompt.begin(), prompt.begin() + 12});
  found("its first 13 tokens", {prompt.begin(), prompt.begin() + 13});
  found("3 tokens of it, less than a page", {prompt.begin(), prompt.begin() + 3});
  found("its second page alone", {prompt.begin() + 4, prompt.end()});
  Tokens changed = prompt;
  changed[5] = (changed[5] + 1) % kVocab;
  found("the first prompt with another token 5", changed);
  found("the first page behind a strange one",
        joined({prompt[1], prompt[0], prompt[1], prompt[0]}, prompt));
  found("no tokens", {});
  const SequenceId third = prefixes.create(prompt);
  fact("pages that a third sequence shares with the first",
       std::ranges::equal(
           world.target_cache.pages(third),
           world.target_cache.pages(first).first(world.target_cache.pages(third).size()))
           ? std::ssize(world.target_cache.pages(third))
           : -1);
  fact("lookups, hits", std::vector<std::int64_t>{prefixes.stats().lookups, prefixes.stats().hits});
  for (const SequenceId sequence : {first, second, third}) world.target_cache.release(sequence);
}

}  // namespace specdec::course

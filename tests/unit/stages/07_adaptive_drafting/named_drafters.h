#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stages/07_adaptive_drafting/confidence_spec_length.h"
#include "stages/07_adaptive_drafting/entropy_spec_length.h"
#include "stages/07_adaptive_drafting/fallback_drafter.h"
#include "stages/07_adaptive_drafting/ngram_drafter.h"
#include "stages/07_adaptive_drafting/schedule_spec_length.h"
#include "stages/07_adaptive_drafting/speculating_drafter.h"
#include "stages/07_adaptive_drafting/suffix_drafter.h"
#include "stages/07_adaptive_drafting/survival_spec_length.h"
#include "stages/07_adaptive_drafting/while_it_pays.h"
#include "tests/unit/stages/07_adaptive_drafting/drafting_law.h"

// Every drafter and every policy of stage 7, by name.
namespace specdec::law {

struct NamedPolicy {
  std::string name;
  MakePolicy make;
};

inline std::vector<double> costs(int largest, double each) {
  std::vector<double> result;
  for (int K = 0; K <= largest; K++) result.push_back(1 + each * K);
  return result;
}

// A draft pays if the draft model clearly prefers one token. warm_up: tests before it decides.
inline std::unique_ptr<SpecLengthPolicy> survival(int K, int warm_up) {
  return std::make_unique<SurvivalSpecLength>(std::make_shared<SurvivalModel>(K, warm_up),
                                              costs(K, 0.7), 0.1);
}

inline std::vector<NamedPolicy> policies(int K) {
  return {
      {"fixed", [=] { return fixed_spec_length(K); }},
      {"entropy", [=] { return std::make_unique<EntropySpecLength>(1, K); }},
      {"smoothed entropy", [=] { return std::make_unique<EntropySpecLength>(1, K, 0.5); }},
      {"confidence 0.5", [=] { return std::make_unique<ConfidenceSpecLength>(0.5, K); }},
      {"confidence 0.7", [=] { return std::make_unique<ConfidenceSpecLength>(0.7, K); }},
      {"confidence 1", [=] { return std::make_unique<ConfidenceSpecLength>(1, K); }},
      {"schedule", [=] { return std::make_unique<ScheduleSpecLength>(1, 1, K); }},
      {"survival", [=] { return survival(K, 0); }},
      {"survival, warming up", [=] { return survival(K, 2); }},
      {"while it pays",
       [=] {
         return std::make_unique<WhileItPays>(std::make_unique<ConfidenceSpecLength>(0.6, K),
                                              costs(K, 1), 0.5);
       }},
  };
}

struct NamedDrafter {
  std::string name;
  MakeDrafter make;
};

inline std::shared_ptr<Drafter> speculating(LanguageModel& model, std::shared_ptr<Drafter> inner,
                                            int k) {
  return std::make_shared<SpeculatingDrafter>(model, std::move(inner), k, 64, model.vocab_size());
}

inline std::vector<NamedDrafter> drafters() {
  return {
      {"model", [](LanguageModel& draft, LanguageModel&) { return gated_drafter(draft); }},
      {"n-grams", [](LanguageModel&, LanguageModel&) { return std::make_shared<NgramDrafter>(); }},
      {"suffixes",
       [](LanguageModel&, LanguageModel&) {
         return std::make_shared<SuffixDrafter>(SuffixDrafter::Options{});
       }},
      {"n-grams, then model",
       [](LanguageModel& draft, LanguageModel&) {
         return std::make_shared<FallbackDrafter>(std::make_shared<NgramDrafter>(1),
                                                  gated_drafter(draft));
       }},
      {"draft of draft, k = 1",
       [](LanguageModel& draft, LanguageModel& below) {
         return speculating(draft, plain_drafter(below), 1);
       }},
      {"draft of draft, k = 2",
       [](LanguageModel& draft, LanguageModel& below) {
         return speculating(draft, plain_drafter(below), 2);
       }},
      {"n-grams below the draft",
       [](LanguageModel& draft, LanguageModel&) {
         return speculating(draft, std::make_shared<NgramDrafter>(), 2);
       }},
      {"three levels",
       [](LanguageModel& draft, LanguageModel& below) {
         return speculating(draft, speculating(below, std::make_shared<NgramDrafter>(1), 1), 1);
       }},
  };
}

}  // namespace specdec::law

// Any bytes as config.json and as generation_config.json: an Error, or a shape that the engine can
// rely on.
#include <string_view>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/checkpoint/llama_config.h"

using namespace specdec;

namespace {

void check_config(const LlamaConfig& config) {
  for (const int size :
       {config.d_model, config.d_ff, config.n_layers, config.n_heads, config.n_kv_heads,
        config.head_dim, config.vocab_size, config.max_seq_len}) {
    SPECDEC_CHECK(size > 0, "all sizes to be positive");
  }
  SPECDEC_CHECK(config.n_heads % config.n_kv_heads == 0, "whole groups of heads");
  SPECDEC_CHECK(config.head_dim % 2 == 0, "pairs for RoPE");
  SPECDEC_CHECK(config.rms_norm_eps > 0 && config.rope_theta > 0, "positive numbers");
  for (const TokenId id : config.eos_ids) {
    SPECDEC_CHECK(id >= 0 && id < config.vocab_size, "eos ids to be in the vocabulary");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check_config(parse_llama_config(text, "config.json"));
  } catch (const Error&) {  // refused
  }
  try {
    for (const TokenId id : parse_generation_eos_ids(text, "generation_config.json", 100)) {
      SPECDEC_CHECK(id >= 0 && id < 100, "eos ids to be in the vocabulary");
    }
  } catch (const Error&) {  // refused
  }
  return 0;
}

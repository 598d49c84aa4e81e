#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/token_id.h"

namespace specdec {

// The llama3 kind of RoPE scaling: long wavelengths are stretched by `factor`, short ones are kept,
// and those in between are blended. It applies at every position, even in short prompts.
struct RopeScaling {
  double factor = 0;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  double original_max_seq_len = 0;  // "original_max_position_embeddings"
};

// The shape of a Llama model, from its config.json. All sizes are positive.
struct LlamaConfig {
  int d_model = 0;  // "hidden_size"
  int d_ff = 0;     // "intermediate_size"
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;   // divides n_heads
  int head_dim = 0;     // even; independent of d_model / n_heads
  int vocab_size = 0;   // rows of the embedding; a tokenizer may have fewer entries
  int max_seq_len = 0;  // "max_position_embeddings"
  double rms_norm_eps = 0;
  double rope_theta = 0;
  std::optional<RopeScaling> rope_scaling;
  bool tied_head = false;        // the head is the embedding, transposed
  std::vector<TokenId> eos_ids;  // empty: the model names none
};

// Reads a config.json in its older and its newer spelling (transformers 4 and 5). `name`: the name
// of the file in messages. Throws Error if the config contradicts itself, or, naming the field, if
// the model is not a Llama as we compute it: otherwise the text would be wrong without a warning.
LlamaConfig parse_llama_config(std::string_view json, const std::string& name);

// The eos ids of a generation_config.json, one number or a list; empty if it names none. If it
// names some, they replace config.json's. Throws Error.
std::vector<TokenId> parse_generation_eos_ids(std::string_view json, const std::string& name,
                                              int vocab_size);

}  // namespace specdec

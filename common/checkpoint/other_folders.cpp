#include "common/checkpoint/other_folders.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

struct Sign {
  const char* file;
  const char* meaning;
};

// Files that are in no checkpoint that we can read.
constexpr Sign kForeignFiles[] = {
    {"adapter_config.json",
     "is an adapter (LoRA) and no model by itself; merge it into its model first, for instance "
     "with merge_and_unload() of the Python package peft"},
    {"hf_quant_config.json",
     "holds weights that ModelOpt quantised; use the checkpoint in bf16, f16 or f32 that they were "
     "made from"},
    {"quantize_config.json",
     "holds weights that GPTQ quantised; use the checkpoint in bf16, f16 or f32 that they were "
     "made from"},
    {"quant_config.json",
     "holds weights that AWQ quantised; use the checkpoint in bf16, f16 or f32 that they were made "
     "from"},
};

// All files that a program may read, except shards, which the index names.
constexpr const char* kFiles[] = {
    "config.json",        "generation_config.json",  "model.safetensors",
    "tokenizer.json",     "chat_template.jinja",     "tokenizer_config.json",
    "chat_template.json", "special_tokens_map.json", "model.safetensors.index.json",
};

Names names_in(const fs::path& directory) {
  Names names;
  std::error_code error;  // a directory that cannot be listed may still be readable
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.insert(entry->path().filename().string());
  }
  return names;
}

// The first name with this beginning and this end; empty: there is none.
std::string find(const Names& names, std::string_view beginning, std::string_view end) {
  const auto found = std::ranges::find_if(names, [&](const std::string& name) {
    return name.starts_with(beginning) && name.ends_with(end);
  });
  return found == names.end() ? "" : *found;
}

[[noreturn]] void refuse_gguf(const fs::path& path, const fs::path& file) {
  fail("{}: is a model in llama.cpp's format, GGUF; convert it with make real GGUF={}",
       path.string(), file.string());
}

void refuse_file(const fs::path& path) {
  if (path.extension() == ".gguf") refuse_gguf(path, path);
  fail("{}: is a file; name the directory that holds config.json and the weights", path.string());
}

// A folder without safetensors.
void refuse_other_formats(const fs::path& directory, const Names& names) {
  const std::string name = directory.string();
  if (names.contains("snapshots")) {
    const std::string snapshot = find(names_in(directory / "snapshots"), "", "");
    fail("{}: is a hub's cache of a model; the checkpoint is in a directory below, {}", name,
         (directory / "snapshots" / snapshot).string());
  }
  if (const std::string file = find(names, "", ".gguf"); !file.empty()) {
    refuse_gguf(directory, directory / file);
  }
  if (const std::string file = find(names, "pytorch_model", ".bin"); !file.empty()) {
    fail(
        "{}: holds its weights in PyTorch's format ({}); load it with the Python package "
        "transformers, and save_pretrained() writes safetensors",
        name, file);
  }
  if (const std::string file = find(names, "consolidated.", ".pth"); !file.empty()) {
    fail(
        "{}: holds its weights in Meta's format ({}); convert them with "
        "convert_llama_weights_to_hf.py of the Python package transformers",
        name, file);
  }
}

}  // namespace

void refuse_dangling_link(const fs::path& file) {
  std::error_code error;
  if (!fs::is_symlink(file, error) || fs::exists(file, error)) return;
  fail(
      "{}: is a link to {}, which is not there; download the model again, for instance with "
      "hf download --force-download",
      file.string(), fs::read_symlink(file, error).string());
}

void refuse_other_folders(const fs::path& directory) {
  refuse_dangling_link(directory);
  std::error_code error;
  if (fs::is_regular_file(directory, error)) refuse_file(directory);
  const Names names = names_in(directory);
  for (const char* file : kFiles) refuse_dangling_link(directory / file);
  for (const auto& [file, meaning] : kForeignFiles) {
    if (names.contains(file)) fail("{}: {} ({})", directory.string(), meaning, file);
  }
  if (!names.contains("model.safetensors") && !names.contains("model.safetensors.index.json")) {
    refuse_other_formats(directory, names);
  }
}

}  // namespace specdec

"""Writes a checkpoint in Hugging Face's layout as a GGUF file, which llama.cpp reads. Needs the packages gguf and numpy.

    python3 tests/benchmarks/peers/gguf_file.py CHECKPOINT_DIR OUT.gguf

Matrices keep their type; norms become float32, which llama.cpp wants. The file has no tokenizer: programs feed ids.
"""
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "stages/programs/real"))
import llama_in_gguf as llama  # noqa: E402

GGUF_NAMES = {ours: theirs for theirs, ours in {**llama.NAMES, **llama.NAMES_OF_A_LAYER}.items()}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    stem = name.removesuffix(".weight")
    if stem in GGUF_NAMES:
        return GGUF_NAMES[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}.weight"


def metadata(config):
    """All integers that llama.cpp asks for."""
    heads, dims = config["num_attention_heads"], config["head_dim"]
    return {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"],
            "block_count": config["num_hidden_layers"], "feed_forward_length": config["intermediate_size"],
            "attention.head_count": heads, "attention.head_count_kv": config["num_key_value_heads"],
            "attention.key_length": dims, "attention.value_length": dims, "rope.dimension_count": dims,
            "vocab_size": config["vocab_size"]}


def read_safetensors(file):
    """name -> entry in the order of the data, and where the data begins."""
    with file.open("rb") as opened:
        length, = struct.unpack("<Q", opened.read(8))
        header = json.loads(opened.read(length))
    header.pop("__metadata__", None)
    return dict(sorted(header.items(), key=lambda item: item[1]["data_offsets"])), 8 + length


def tensors(checkpoint, config):
    """(name in GGUF, array, type in GGUF). Rows of matrices are bytes, in the order of llama.cpp's RoPE."""
    import gguf
    import numpy
    header, start = read_safetensors(checkpoint / "model.safetensors")
    data = numpy.memmap(checkpoint / "model.safetensors", numpy.uint8, "r", offset=start)
    for name, entry in header.items():
        kind = gguf.GGMLQuantizationType[entry["dtype"]]
        rows = data[slice(*entry["data_offsets"])].reshape(entry["shape"][0], -1)
        if len(entry["shape"]) == 1:
            yield gguf_name(name), gguf.dequantize(rows.reshape(-1), kind), gguf.GGMLQuantizationType.F32
            continue
        if heads := llama.heads_that_turn(name, config):
            rows = rows[llama.adjacent_pairs(len(rows), heads)]
        yield gguf_name(name), rows, kind
    if scaling := config.get("rope_scaling"):
        factors = llama.rope_factors(scaling, config["rope_theta"], config["head_dim"])
        yield llama.ROPE_FACTORS, numpy.array(factors, numpy.float32), gguf.GGMLQuantizationType.F32


def write(checkpoint, out):
    """The file appears whole or not at all."""
    import gguf
    config, partial = json.loads((checkpoint / "config.json").read_text(encoding="utf-8")), out.with_name(out.name + ".part")
    writer = gguf.GGUFWriter(str(partial), "llama")
    for key, value in metadata(config).items():
        writer.add_uint32("llama." + key, value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
    writer.add_float32("llama.rope.freq_base", config["rope_theta"])
    writer.add_tokenizer_model("none")
    for name, array, kind in tensors(checkpoint, config):
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(out)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

"""A Llama in GGUF as a checkpoint in Hugging Face's layout, in bfloat16 or as it is. Needs the packages gguf and numpy.

gguf reads the file and dequantises; names, order and rounding are ours. One tensor at a time is in memory.

Kept as they are, groups of 32 weights have GGUF's bytes: NAME.q4_1 and NAME.q8_0 of type U8, [rows, bytes of a row].
common/checkpoint/grouped_tensor.h reads them.
"""
import json
import struct

import llama_in_gguf as llama
import tokenizer_in_gguf
from llama_in_gguf import Fields, Trouble


def read(path):
    """The file's key-value pairs, and its tensors in order. numpy maps it, so nothing is read yet."""
    from gguf import GGUFReader
    try:
        reader = GGUFReader(str(path))
        return Fields({key: field.contents() for key, field in reader.fields.items()}), reader.tensors
    except OSError:
        raise
    except Exception as error:  # the package checks little, and fails in the manner of what it trips over
        raise Trouble(f"it is damaged, or no GGUF file: {error}") from error


def shape_of(tensor):
    """As Hugging Face orders it: rows first. GGUF begins with the length of a row."""
    return tuple(int(size) for size in reversed(tensor.shape))


def named(tensors):
    """The weights by Hugging Face's names, and RoPE's factors."""
    import numpy
    weights = {llama.hugging_face_name(tensor.name): tensor for tensor in tensors if tensor.name != llama.ROPE_FACTORS}
    factors = [dequantised(tensor) for tensor in tensors if tensor.name == llama.ROPE_FACTORS]
    return weights, numpy.concatenate(factors).tolist() if factors else []


def dequantised(tensor):
    """float32, of the tensor's shape."""
    import numpy
    from gguf import dequantize
    try:
        values = dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
        raise Trouble(f"the tensor {tensor.name}: the package gguf cannot dequantise {tensor.tensor_type.name}") from error
    return values.reshape(shape_of(tensor)).astype(numpy.float32, copy=False)


def to_bfloat16(values):
    """Rounded to the nearest, ties to even: the upper half of each float32. None where one is not finite."""
    import numpy
    bits = numpy.ascontiguousarray(values).view(numpy.uint32)
    upper = ((bits + (0x7fff + ((bits >> 16) & 1))) >> 16).astype(numpy.uint16)
    infinite = (upper & 0x7f80) == 0x7f80
    return None if (infinite | ~numpy.isfinite(values)).any() else upper


def in_our_order(values, name, config):
    """Rows of q and k in the pairs that Hugging Face's RoPE turns."""
    import numpy
    heads = llama.heads_that_turn(name, config)
    if not heads:
        return values
    turned = numpy.empty_like(values)
    turned[llama.adjacent_pairs(len(values), heads)] = values
    return turned


KEPT_FLOATS = {"F32": 4, "F16": 2, "BF16": 2}  # bytes of a number
KEPT_GROUPS = {"Q4_1": 20, "Q8_0": 34}  # bytes of a group; it begins with two halves, or with one
HALVES = {"Q4_1": 2, "Q8_0": 1}
STACKED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))  # as one matrix


def kept_form(name, tensor):
    """Name, type and shape in the file of a tensor that is kept as it is."""
    kind, shape = tensor.tensor_type.name, shape_of(tensor)
    if kind in KEPT_FLOATS:
        return name, kind, shape
    if kind not in KEPT_GROUPS or len(shape) < 2:
        raise Trouble(f"the tensor {tensor.name} is of type {kind}; weights are kept of the types "
                      f"{', '.join([*KEPT_GROUPS, *KEPT_FLOATS])}, so leave out WEIGHTS=kept")
    return f"{name}.{kind.lower()}", "U8", (*shape[:-1], shape[-1] // 32 * KEPT_GROUPS[kind])


def check_stacked(weights):
    """What is stacked has one type."""
    for name, tensor in weights.items():
        for first, *others in STACKED:
            for other in others:
                beside = weights.get(name.replace(f".{first}.", f".{other}."), tensor)
                if beside.tensor_type != tensor.tensor_type:
                    raise Trouble(f"the tensors {tensor.name} and {beside.name} are of the types "
                                  f"{tensor.tensor_type.name} and {beside.tensor_type.name}, and only weights of one type "
                                  "can be kept there, so leave out WEIGHTS=kept")


def kept_bytes(tensor, name, config):
    """Rows of bytes. None where a number is not finite."""
    import numpy
    rows = numpy.ascontiguousarray(tensor.data).view(numpy.uint8).reshape(shape_of(tensor)[0], -1)
    kind = tensor.tensor_type.name
    if kind in KEPT_GROUPS:
        groups = rows.reshape(-1, KEPT_GROUPS[kind])
        numbers = numpy.ascontiguousarray(groups[:, :2 * HALVES[kind]]).view("<f2")
    else:
        numbers = dequantised(tensor)
    return in_our_order(rows, name, config) if numpy.isfinite(numbers).all() else None


def header_of(forms):
    """The head of a safetensors file. forms: (name, type, shape) of each tensor, one after the other."""
    entries, end = {"__metadata__": {"format": "pt"}}, 0
    for name, kind, shape in forms:
        begin, end = end, end + KEPT_FLOATS.get(kind, 1) * numbers_in(shape)
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def numbers_in(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def bfloat16_bytes(tensor, name, config):
    numbers = to_bfloat16(in_our_order(dequantised(tensor), name, config))
    return None if numbers is None else numbers.astype("<u2", copy=False)


def write_weights(path, weights, config, keep, progress):
    with path.open("wb") as file:
        file.write(header_of([kept_form(name, tensor) if keep else (name, "BF16", shape_of(tensor))
                              for name, tensor in weights.items()]))
        for count, (name, tensor) in enumerate(weights.items(), 1):
            progress(f"converting: tensor {count} of {len(weights)}")
            data = (kept_bytes if keep else bfloat16_bytes)(tensor, name, config)
            if data is None:
                raise Trouble(f"the tensor {tensor.name} has a number that is no finite "
                              f"{tensor.tensor_type.name if keep else 'bfloat16'}")
            file.write(data.tobytes())


def convert(source, folder, progress, keep=False):
    """Writes the checkpoint's files into a folder that is there. keep: the weights as they are, instead of bfloat16.
    Returns how many parameters the model has."""
    try:
        fields, tensors = read(source)
        llama.check_is_llama(fields)
        weights, factors = named(tensors)
        shapes = {name: shape_of(tensor) for name, tensor in weights.items()}
        config = llama.config_of(fields, shapes, factors)
        if keep:
            check_stacked(weights)
            del config["torch_dtype"]
        texts = {"config.json": indented(config), "generation_config.json": indented(llama.ids_of_tokens(fields)),
                 **tokenizer_in_gguf.files_of(fields, config["vocab_size"], config["max_position_embeddings"])}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        write_weights(folder / "model.safetensors", weights, config, keep, progress)
    except Trouble as trouble:
        raise Trouble(f"{source}: {trouble}") from trouble
    return sum(map(numbers_in, shapes.values()))


def indented(values):
    return json.dumps(values, indent=2) + "\n"

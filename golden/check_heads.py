"""Shows that the golden files of drafters agree with the float64 oracle, which drafts every round by itself.

check_goldens.py calls this for each folder of goldens that has drafters.
"""
from collections import defaultdict
from pathlib import Path

import numpy as np

import goldens_files as files
from oracle import drafters_float64 as oracle

HERE = Path(__file__).resolve().parent
COUNT = 5                                   # drafts of a round


def weights_of(goldens):
    """The folder of the drafters that goldens/TARGET/heads belongs to."""
    return HERE / {"target": "heads", "smollm2": "heads/smollm2"}.get(goldens.parent.name, "checkpoints/heads")


def errors_of(drafter, tensors):
    """By name: of each prompt's round, or a text where something differs."""
    errors = {}
    for prompt in sorted({name.split(".")[0] for name in tensors}):
        golden = {name.split(".")[1]: t for name, t in tensors.items() if name.startswith(prompt + ".")}
        ids = golden.pop("token_ids").tolist()
        drafter.read(ids)
        rows, logits, tokens = drafter.draft(len(ids) - 1, len(golden["tokens"]))
        if golden.pop("tokens").tolist() != tokens.tolist():
            return f"{prompt}: the oracle drafts {tokens.tolist()}"
        if "logits_ids" in golden:          # of a large model, some columns and no text
            columns = np.searchsorted(oracle.tokens_of(drafter.weights, np.arange(logits.shape[1])), golden.pop("logits_ids"))
            expected = {"rows": rows, "logits": logits[:, columns]}
        else:
            expected = {"rows": rows, "logits": logits} | drafter.text_tensors(len(ids) - 1)
        if expected.keys() != golden.keys():
            return f"{prompt}: tensors {sorted(expected.keys() ^ golden.keys())} are missing or unknown"
        errors |= {f"{prompt}.{name}": files.relative_error(t, expected[name]) for name, t in golden.items()}
    return errors


def chain(drafter, prompt, output, count):
    """Rounds, and drafts tested and accepted by position, where the output is the target's text."""
    tested, accepted, rounds, place, text = [0] * count, [0] * count, 0, len(prompt) - 1, prompt + output
    drafter.read(text[:-1])
    while place < len(text) - 1:
        _, _, tokens = drafter.draft(place, count)
        rounds, kept = rounds + 1, 0
        while kept < count and place + 1 + kept < len(text):
            tested[kept] += 1
            if tokens[kept] != text[place + 1 + kept]:
                break
            accepted[kept] += 1
            kept += 1
        place += kept + 1
    return {"rounds": rounds, "tested": tested, "accepted": accepted}


def wrong_counts(drafters, folder):
    """Lines of acceptance.jsonl that the oracle does not find. Yields texts."""
    texts, lines = {text["id"]: text for text in files.read_lines(folder / "greedy.jsonl")}, defaultdict(list)
    for line in files.read_lines(folder / "acceptance.jsonl"):
        lines[line["id"]].append(line)
    for id_, of_text in lines.items():
        for line in of_text:
            found = chain(drafters[line["heads"]], texts[id_]["prompt_ids"], texts[id_]["tokens"],
                          line["spec_length"])
            if found != {name: line[name] for name in found}:
                yield f"{line['heads']}, {id_}: the oracle counts {found}"


def check(model, folder, require, allowed, tolerance, write):
    """folder: goldens of the target in `model`. The other functions are those of check_goldens."""
    goldens, target = folder / "heads", oracle.Model(model)
    manifest, weights = files.read_json(goldens / "manifest.json"), weights_of(goldens)
    drafters = {path.parent.name: oracle.load(path.parent, target) for path in sorted(weights.glob("*/config.json"))
                if path.parent.name != "markov"}
    require(drafters.keys() == {path.stem for path in goldens.glob("*.safetensors")}, f"{goldens}: other drafters")
    for name, value in manifest["sha256"].items():
        require(files.sha256(weights / name) == value, f"{goldens}: made for other weights than {weights / name}")
    worst, limit = defaultdict(float), allowed("logits", target.config.n_layers + COUNT)
    for name, drafter in drafters.items():
        errors = errors_of(drafter, files.read_tensors(goldens / f"{name}.safetensors"))
        require(isinstance(errors, dict), f"{goldens.parent.name}/heads/{name}: {errors}")
        for tensor, error in errors.items():
            bound = limit if write else manifest["tolerances"][tensor]
            require(files.within(error, bound), f"{goldens.parent.name}/heads/{name}: {tensor} is off by {error:.3g}")
            worst[tensor] = max(worst[tensor], error)
    if (folder / "acceptance.jsonl").exists():
        found = list(wrong_counts(drafters, folder))
        require(not found, f"{folder.name}: {'; '.join(found[:5])}")
    print(f"{folder.name}: {len(drafters)} drafters; largest error {max(worst.values()):.2e}")
    if write:
        files.write_json(goldens / "manifest.json", manifest | {
            "errors": {name: files.rounded(error, 3) for name, error in worst.items()},
            "tolerances": {name: tolerance(error) for name, error in worst.items()}})

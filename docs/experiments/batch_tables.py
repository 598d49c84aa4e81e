"""The tables of docs/06_batched_verification/, made from what batch.py measured. tables.py puts them there."""
from table_text import Tables, machine, number, numbers, prose, smoke

TABLES = table = Tables()
PREDICTED_K = (1, 5)


class Batches:
    """batch.json, with the settings of its parts by (B, K)."""

    def __init__(self, data):
        self.data = data
        self.pair, self.memory = ({(e["B"], e["K"]): e for e in data[part]["entries"]} for part in ("pair", "memory"))


def batches_and_lengths(settings):
    """The B and the K > 0 of a part, in order."""
    return sorted({batch for batch, _ in settings}), sorted({K for _, K in settings if K})


def megabytes(part):
    return f"{part['target_weight_bytes'] / 1e6:.1f} MB"


@table
def batch_machine(batches):
    pair, memory = batches.data["pair"], batches.data["memory"]
    return prose(f"{machine(pair)} Embedded pair (target {megabytes(pair)}): {pair['requests']} requests, "
                 f"{pair['max_new_tokens']} new tokens each, {pair['rounds']} sweeps.{smoke(pair)} Random weights "
                 f"({megabytes(memory)}): {memory['rounds']} sweeps, one thread read "
                 f"{memory['machine']['read_bandwidth_one_thread_gb_per_s']} GB/s.{smoke(memory)}")


def by_batch(settings, cell, best=None):
    """B down, K across. best: B -> the K that is bold, and named in a last column."""
    rows, (sizes, lengths) = [], batches_and_lengths(settings)
    for batch in sizes:
        chosen = best and best[str(batch)]
        cells = [f"**{cell(settings[batch, K])}**" if K == chosen else cell(settings[batch, K]) for K in lengths]
        rows.append([str(batch), *cells, *([str(chosen or "none")] if best else [])])
    return "|".join(["B", *(f"K = {K}" for K in lengths), *(["best K"] if best else [])]), rows


@table
def sweep(batches):
    """The embedded pair: measured speedup in full batches, the best K bold where it is faster than none."""
    return by_batch(batches.pair, lambda e: number(e["gain"]), batches.data["pair"]["best_k_by_batch"])


@table
def sweep_memory(batches):
    """Random weights: the same, and v."""
    return by_batch(batches.memory, lambda e: f"{number(e['gain'])} (v {number(e['v'])})",
                    batches.data["memory"]["best_k_by_batch"])


@table
def sweep_predicted(batches):
    """The embedded pair: two predictions beside the measurement."""
    sizes, lengths = batches_and_lengths(batches.pair)
    return ("K|B|alpha|c|v|tokens per round|formula|accounting|tokens per round, full batches|measured|sweeps|whole run", [
        [str(K), str(batch), *numbers(e, "alpha c v emitted_overall formula accounting emitted_per_round gain"),
         f"{number(e['gain_least'])} to {number(e['gain_most'])}", number(e["gain_overall"])]
        for K in PREDICTED_K if K in lengths for batch in sizes for e in [batches.pair[batch, K]]])


@table
def sweep_supposed(batches):
    """Predicted: the measured v of the random weights, with the alpha and c of a draft model that is supposed."""
    return by_batch(batches.memory, lambda e: number(e["supposed"]))


@table
def throughput(batches):
    """Tokens a second in full batches, without speculation and with the K that is best for it."""
    heads, rows = ["B"], {}
    for name, settings in (("embedded pair", batches.pair), ("random weights", batches.memory)):
        heads += [f"{name}, K = 0", "with speculation, at best"]
        sizes, lengths = batches_and_lengths(settings)
        for batch in sizes:
            best = max((settings[batch, K] for K in lengths), key=lambda e: e["gain"])  # within sweeps
            rows.setdefault(batch, [str(batch)]).extend([
                f"{settings[batch, 0]['tokens_per_second']:,.0f}", f"{best['tokens_per_second']:,.0f} (K = {best['K']})"])
    return "|".join(heads), [rows[batch] for batch in sorted(rows)]


@table
def break_even(batches):
    """For each K that both models were measured with, the largest B at which speculation is faster than none."""
    def largest(settings, K, gain):
        return str(max((batch for (batch, length), e in settings.items() if length == K and e[gain] > 1), default="none"))
    lengths = sorted({K for _, K in batches.memory if K} & {K for _, K in batches.pair})
    return ("K|embedded pair: up to B|random weights, always right: up to B|their v with alpha 0.8, c 0.1 (predicted): up to B", [
        [str(K), largest(batches.pair, K, "gain"), largest(batches.memory, K, "gain"),
         largest(batches.memory, K, "supposed")] for K in lengths])

"""The tables of docs/06_batched_verification/, made from what batch.py measured. tables.py puts them there."""
from table_text import machine, markdown, number, prose, smoke

TABLES = {}
PREDICTED_K = (1, 5)


def table(make):
    TABLES[make.__name__.replace("_", "-")] = make
    return make


class Batches:
    """batch.json, with the settings of its parts by (B, K)."""

    def __init__(self, data):
        self.data = data
        self.pair, self.memory = ({(e["batch"], e["spec_length"]): e for e in data[part]["settings"]}
                                  for part in ("pair", "memory"))


def batches_and_lengths(settings):
    """The B and the K > 0 of a part, in order."""
    return sorted({batch for batch, _ in settings}), sorted({K for _, K in settings if K})


def megabytes(part):
    return f"{part['target_weight_bytes'] / 1e6:.1f} MB"


@table
def batch_machine(batches):
    pair, memory = batches.data["pair"], batches.data["memory"]
    return prose(f"{machine(pair)} Embedded pair (target {megabytes(pair)}): {pair['requests']} requests, "
                 f"{pair['max_new_tokens']} new tokens each, {pair['sweeps']} sweeps.{smoke(pair)} Random weights "
                 f"({megabytes(memory)}): {memory['sweeps']} sweeps, one thread read "
                 f"{memory['machine']['read_bandwidth_one_thread_gb_per_s']} GB/s.{smoke(memory)}")


def speed_ups(settings, best, cell):
    """B down, K across; the best K bold where it is faster than none."""
    rows, (sizes, lengths) = [], batches_and_lengths(settings)
    for batch in sizes:
        chosen = best[str(batch)]
        cells = [f"**{cell(settings[batch, K])}**" if K == chosen else cell(settings[batch, K]) for K in lengths]
        rows.append([str(batch), *cells, str(chosen or "none")])
    return markdown(["B", *(f"K = {K}" for K in lengths), "best K"], rows)


@table
def sweep(batches):
    """The embedded pair: measured speedup in full batches."""
    return speed_ups(batches.pair, batches.data["pair"]["best_k_by_batch"], lambda e: number(e["measured"]))


@table
def sweep_memory(batches):
    """Random weights: measured speedup in full batches, and v."""
    return speed_ups(batches.memory, batches.data["memory"]["best_k_by_batch"],
                     lambda e: f"{number(e['measured'])} (v {number(e['v'])})")


@table
def sweep_predicted(batches):
    """The embedded pair: two predictions beside the measurement."""
    rows, (sizes, lengths) = [], batches_and_lengths(batches.pair)
    for K in (K for K in PREDICTED_K if K in lengths):
        for batch in sizes:
            e = batches.pair[batch, K]
            rows.append([str(K), str(batch), number(e["alpha"]), number(e["c"]), number(e["v"]),
                         number(e["emitted_overall"]), number(e["formula"]), number(e["accounting"]),
                         number(e["emitted"]), number(e["measured"]),
                         f"{number(e['measured_least'])} to {number(e['measured_most'])}",
                         number(e["measured_overall"])])
    return markdown(["K", "B", "alpha", "c", "v", "tokens per round", "formula", "accounting",
                     "tokens per round, full batches", "measured", "sweeps", "whole run"], rows)


@table
def sweep_supposed(batches):
    """Predicted: the measured v of the random weights, with the alpha and c of a draft model that is supposed."""
    rows, (sizes, lengths) = [], batches_and_lengths(batches.memory)
    for batch in sizes:
        rows.append([str(batch), *(number(batches.memory[batch, K]["supposed"]) for K in lengths)])
    return markdown(["B", *(f"K = {K}" for K in lengths)], rows)


@table
def throughput(batches):
    """Tokens a second in full batches, without speculation and with the K that is best for it."""
    heads, rows = ["B"], {}
    for name, settings in (("embedded pair", batches.pair), ("random weights", batches.memory)):
        heads += [f"{name}, K = 0", "with speculation, at best"]
        sizes, lengths = batches_and_lengths(settings)
        for batch in sizes:
            best = max((settings[batch, K] for K in lengths), key=lambda e: e["measured"])  # within sweeps
            row = rows.setdefault(batch, [str(batch)])
            row += [f"{settings[batch, 0]['tokens_per_second']:,.0f}",
                    f"{best['tokens_per_second']:,.0f} (K = {best['spec_length']})"]
    return markdown(heads, [rows[batch] for batch in sorted(rows)])


def largest_batch(settings, K, gain):
    """The largest B at which a gain is above 1."""
    return max((batch for (batch, length), e in settings.items() if length == K and e[gain] > 1), default="none")


@table
def break_even(batches):
    """For each K that both models were measured with, the largest B at which speculation is faster than none."""
    lengths = sorted({K for _, K in batches.memory if K} & {K for _, K in batches.pair})
    rows = [[str(K), *(str(largest_batch(*at)) for at in ((batches.pair, K, "measured"), (batches.memory, K, "measured"),
                                                          (batches.memory, K, "supposed")))] for K in lengths]
    return markdown(["K", "embedded pair: up to B", "random weights, always right: up to B",
                     "their v with alpha 0.8, c 0.1 (predicted): up to B"], rows)

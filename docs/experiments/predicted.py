#!/usr/bin/env python3
"""How long a pass of Llama 3.2 should take on an H100, before any GPU has run it: a model of each kernel, by the clocks of
its machine code, the bytes that it moves, and times assumed for what no listing shows.

    python3 docs/experiments/predicted.py     prints all tables, and what a norm within qkv would take

tables.py puts the tables into docs/kernels/6_a_gpu_of_your_own.md, with what cuda.json has of a GPU in the last columns.
"""
import math

from table_text import Results, Tables, number

TABLES = Tables("predicted-")
# Assumed: clocks per microsecond; bytes per microsecond from memory and from L2.
CLOCKS, MEMORY, L2 = 1850, 3.0e6, 5.5e6
# Assumed, in microseconds: from one kernel to the next; a product's first inputs; its epilogue and last block.
NEXT, FIRST_INPUTS, LAST = 0.9, 0.5, 0.6
MULTIPROCESSORS, FEW_BLOCKS = 132, 2   # RowGroups in row_groups.h has the second
PREFETCHED = 4                         # kPrefetched in matmul_6_pipeline.cu
ROPE_AT_THE_END = 0.4                  # assumed: a product's end waits once more for L2
# layers, d_model, query and key/value width, d_ff, head_dim
MODELS = {"3B": (28, 3072, 3072, 1024, 8192, 128), "1B": (16, 2048, 2048, 512, 8192, 64)}
VOCABULARY, KV_HEADS, CONTEXT = 128256, 8, 64
# Attention, by head_dim and queries of a warp: clocks for four products of a score and for one position's values, as
# test_listings.py prints them: one load at a time, and now.
ATTENTION = {False: {128: {1: (57, 74), 2: (55, 58), 5: (80, 250)}, 64: {1: (57, 24), 3: (58, 77), 6: (88, 282)}},
             True: {128: {1: (13.1, 12.0), 2: (25.3, 20.8), 5: (54.5, 47.0)},
                    64: {1: (13.1, 11.6), 3: (38.5, 35.5), 6: (56.5, 50.5)}}}
# Prefill: clocks that a warp takes for a chain of the tile of 128 x 64, by test_listings.py; multiply-adds of the tensor
# cores per microsecond, by the data sheet; and the parts of them that mma.sync and wgmma reach, which are assumed.
PROMPT, CHAIN_OF_64_ROWS, TENSOR_CORES, BY_MMA, BY_WGMMA = 512, 4 * 520, 494.5e6, 0.62, 0.8
KERNELS = ("norm", "qkv", "rope, store", "attention", "o_proj", "add, norm", "gate_up", "down_proj")


def product(inputs, outputs, rows, waits, now):
    """waits: microseconds for which its blocks are there before its inputs are."""
    of_block, blocks, slots = 32, math.ceil(outputs / 32), 2 * MULTIPROCESSORS
    stage, clocks, tile = (256, 1020, 8) if rows <= 8 else (128, 1020, 16)
    if now and rows > 8 and math.ceil(outputs / 64) > MULTIPROCESSORS:
        of_block, blocks, clocks = 64, math.ceil(outputs / 64), 1180   # by the listing, 15 % more for twice the outputs
    elif now and blocks <= MULTIPROCESSORS:
        stage, clocks = 2 * stage, 1100   # a wide tile, with twice the inputs in a stage: 998 by the listing, and a tenth more
    stages, weights = math.ceil(inputs / stage), 2 * of_block * stage
    from_l2 = weights + min(rows, tile) * stage * 4
    first = min(blocks, slots)
    early = first * 2 * weights / MEMORY   # two stages of weights are asked for before the inputs are there
    # and while the blocks wait on, L2 gets more of them
    ahead = min(PREFETCHED, stages - 2, max(0, waits - early) / (first * weights / MEMORY)) if now else 0
    early = min(early, waits)
    floor = 2 * inputs * outputs / MEMORY - ahead * first * weights / MEMORY - early
    if blocks <= MULTIPROCESSORS:
        work = stages * clocks / CLOCKS   # of a block, which no early weights shorten
    else:
        def turn(b, in_l2=0):   # of b blocks at a time, with some stages in L2 already
            shared = 80 if b > MULTIPROCESSORS else 0
            without_memory = max((clocks + shared) / CLOCKS, b * from_l2 / L2)
            return (stages - in_l2) * max(without_memory, b * weights / MEMORY) + in_l2 * without_memory
        turns, rest = divmod(blocks, slots)
        work = turns * (turn(slots) + 0.4) + (turn(rest) if rest else 0) - turn(first) + turn(first, ahead) - early
    return NEXT + FIRST_INPUTS + max(work, floor) + LAST


def rows_of_a_block(rows, group, most, now):
    fits = max(1, most // group)
    if now:
        for queries in (most // 2 // 4 * 4, 4):
            fewer = max(1, queries // group)
            if math.ceil(rows / fewer) * KV_HEADS <= FEW_BLOCKS * MULTIPROCESSORS:
                fits = fewer
    return fits


def attention(rows, head_dim, group, now):
    clocks = ATTENTION[now][head_dim]
    queries = min(rows, rows_of_a_block(rows, group, 4 * max(clocks), now)) * group
    a_warp = min(p for p in clocks if 4 * p >= queries)
    score, value = clocks[a_warp]
    scores = score * head_dim / 4 + 250 * (1 + (a_warp - 1) / 2) + 900
    tiles = math.ceil(CONTEXT / 32)
    return NEXT + 1.2 + (tiles * (scores + value * 32) + scores) / CLOCKS


def layer(name, rows, now):
    """Kernel -> microseconds."""
    _, d_model, q_width, kv_width, d_ff, head_dim = MODELS[name]
    small = NEXT + (1.4 if rows <= 8 else 1.7)
    group = q_width // head_dim // KV_HEADS
    # Behind a kernel that lets the next one begin before its own wait, weights arrive during all of it.
    behind = {"norm": 6.0, "attention": 6.0, "gate_up": 0.5} if now else {"norm": 2.3, "attention": 0.9, "gate_up": 0.5}
    qkv = product(d_model, q_width + 2 * kv_width, rows, behind["norm"], now) + (ROPE_AT_THE_END if now else 0)
    times = (small, qkv, 0 if now else NEXT + 0.9,
             attention(rows, head_dim, group, now), product(q_width, d_model, rows, behind["attention"], now), small,
             product(d_model, 2 * d_ff, rows, behind["norm"], now), product(d_ff, d_model, rows, behind["gate_up"], now))
    return dict(zip(KERNELS, times))


def bytes_of(name):
    layers, d_model, q_width, kv_width, d_ff, _ = MODELS[name]
    return 2 * (layers * d_model * (2 * q_width + 2 * kv_width + 3 * d_ff) + d_model * VOCABULARY)


def a_pass(name, rows, now):
    layers, d_model = MODELS[name][:2]
    head = 1.8 + NEXT + (1.4 if rows <= 8 else 1.7) + product(d_model, VOCABULARY, rows, 2.0, now)
    return layers * sum(layer(name, rows, now).values()) + head + 33   # embedding, argmax, graph and wait: assumed


def matrices_of(name):
    """The inputs and the outputs of a layer's products."""
    _, d_model, q_width, kv_width, d_ff, _ = MODELS[name]
    return (d_model, q_width + 2 * kv_width), (q_width, d_model), (d_model, 2 * d_ff), (d_ff, d_model)


def by_warpgroups(name):
    """Microseconds of the products of a prefill by step 9: a block with 128 x 128 sums has a multiprocessor for itself."""
    stage = 128 * 128 * 64 * 3 / (TENSOR_CORES * BY_WGMMA / MULTIPROCESSORS)
    return MODELS[name][0] * sum(inputs / 64 * stage * math.ceil(outputs // 128 * (PROMPT // 128) / MULTIPROCESSORS)
                                 + NEXT + LAST for inputs, outputs in matrices_of(name))


def prefill(name):
    """Microseconds of the products, of attention and of the rest, and what the products take on tensor cores at best."""
    layers, d_model, q_width, _, _, head_dim = MODELS[name]
    alone = CHAIN_OF_64_ROWS / CLOCKS                                       # a stage of a block, on its own
    together = max(alone, 2 * 128 * 64 * 64 * 3 / (TENSOR_CORES * BY_MMA / MULTIPROCESSORS))   # and of two
    matrices = matrices_of(name)
    products = 0
    for inputs, outputs in matrices:
        turns, rest = divmod(outputs // 128 * (PROMPT // 64), 2 * MULTIPROCESSORS)
        stages = inputs / 64
        products += stages * (turns * together + (0 if rest == 0 else alone if rest <= MULTIPROCESSORS else together)) + NEXT + LAST
    queries = max(ATTENTION[True][head_dim])
    steps = PROMPT * PROMPT / 2 * q_width / head_dim / queries              # of a warp, over one position
    attended = NEXT + steps * sum(ATTENTION[True][head_dim][queries]) / (4 * MULTIPROCESSORS) / CLOCKS
    rows = 4 * PROMPT * d_model / MEMORY                                    # read or written once
    best = layers * sum(inputs * outputs for inputs, outputs in matrices) * PROMPT * 3 / TENSOR_CORES
    return layers * products, layers * attended, layers * (2 * NEXT + 7 * rows), best


def gain(spec_length, alpha, now):
    """Of the 3B with drafts of the 1B."""
    tokens = (1 - alpha ** (spec_length + 1)) / (1 - alpha)
    draft = a_pass("1B", 1, now) - 25     # a draft loop waits once
    return tokens * a_pass("3B", 1, now) / (spec_length * draft + 25 + a_pass("3B", spec_length + 1, now) + 12)


def norm_in_qkv(name, rows):
    """Microseconds of the norm and qkv, and of qkv if its blocks computed the norm, for which each reads all rows from L2
    (assumed: 300 clocks, or 64 bytes per clock): its weights then travel behind a product, not behind the norm."""
    now, (_, d_model, q_width, kv_width, _, _) = layer(name, rows, True), MODELS[name]
    reading = max(300, 4 * rows * d_model / 64) / CLOCKS
    return now["norm"] + now["qkv"], product(d_model, q_width + 2 * kv_width, rows, 0.5, True) + ROPE_AT_THE_END + reading


# What a kernel of a layer is in cuda_benchmark, where each runs alone.
MEASURED = {"norm": {"benchmark": "rms_norm", "step": "engine"}, "add, norm": {"benchmark": "add_rms_norm", "step": "engine"},
            "attention": {"benchmark": "attention", "step": "engine", "context": CONTEXT},
            **{matrix: {"benchmark": "matmul", "step": "engine", "matrix": matrix}
               for matrix in ("qkv", "o_proj", "gate_up", "down_proj")}}
PASS = {"benchmark": "forward", "gemm": "invariant", "context": CONTEXT}


def measured(results, name, benchmark, **wanted):
    """M -> seconds, by cuda.json."""
    found = results.of(benchmark, shape=name.lower(), **wanted) if results.data else []
    return {e["M"]: e["seconds"] for e in found}


def heads(words, results):
    return f"{words}|measured{' before the last changes of the sources' * bool(results.data and results.stale)}"


@TABLES
def kernels(results):
    """Microseconds of each kernel of a layer."""
    rows = []
    for name in MODELS:
        for kernel in KERNELS:
            times = [number(layer(name, m, now)[kernel], 1) for m in (1, 6, 16) for now in (False, True)]
            found = measured(results, name, **MEASURED[kernel]) if kernel in MEASURED else {}
            rows.append([name, kernel, *times, ", ".join(number(1e6 * found[m], 1) for m in (1, 6, 16) if m in found)])
    return heads("model|kernel|M = 1, before|M = 1|M = 6, before|M = 6|M = 16, before|M = 16", results), rows


@TABLES
def passes(results):
    rows = []
    for name in MODELS:
        for now in (False, True):
            one, found = a_pass(name, 1, now), measured(results, name, **PASS) if now else {}
            cells = [number(1000 * found[1]), number(1e6 * found[1] / (bytes_of(name) / 3.35e6))] if 1 in found else []
            cells += [number(found[m] / found[1]) for m in (6, 16) if cells and m in found]
            rows.append([name, "now" if now else "before", number(one / 1000), number(one / (bytes_of(name) / 3.35e6)),
                         *(number(a_pass(name, m, now) / one) for m in (6, 16)), ", ".join(cells)])
    return heads("model||a pass of one row, ms|as a multiple of its bytes at 3.35 TB/s|T(6)/T(1)|T(16)/T(1)", results), rows


@TABLES
def prefills(results):
    """In milliseconds."""
    rows = []
    for name in MODELS:
        *parts, best = (time / 1000 for time in prefill(name))
        times = (*parts, sum(parts), by_warpgroups(name) / 1000, best)
        found = measured(results, name, **PASS).get(PROMPT)
        rows.append([name, *(number(time, 1) for time in times), number(1000 * found, 1) if found else ""])
    return heads("model|products|attention|the rest|together|products by step 9|products at the data sheet's rate", results), rows


@TABLES
def gains(_):
    return "K|before|now", [[str(k), *(number(gain(k, 0.8, now)) for now in (False, True))] for k in (1, 2, 3, 5)]


if __name__ == "__main__":
    print("\n".join(TABLES[name](Results(None, False)) for name in TABLES))
    for M in (1, 6):
        print(f"3B, M = {M}: norm and qkv {{0:.1f}}, in one kernel {{1:.1f}}".format(*norm_in_qkv("3B", M)))

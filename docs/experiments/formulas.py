"""The cost model in Python, for tables and figures. The programs choose K by two of these formulas, in
common/speculation/paper_formulas.h. `python3 docs/experiments/formulas.py` holds all of them against numbers worked
out by hand, and printed in the paper.

alpha: accepted / tested. K: drafted tokens per round. c: time of a draft step over that of a target step. v: time of a
target pass over K + 1 rows over that of one row.
"""
import math


def emitted(alpha, K):
    """Tokens per round, equation (1)."""
    return sum(alpha**i for i in range(K + 1))


def walltime_factor(alpha, K, c, v=1):
    """How much faster than plain decoding; Theorem 3.8 where v is 1."""
    return emitted(alpha, K) / (K * c + v)


def drafting_cost(alpha, K, k, c1, c2):
    """C(K): what K drafts cost that come out of rounds of up to k inner drafts; stages/07_adaptive_drafting/two_levels.h."""
    cost = [0.0]
    for missing in range(1, K + 1):
        proposed = min(k, missing - 1)
        rest = sum(alpha**j * (1 - alpha) * cost[missing - j - 1] for j in range(proposed))
        cost.append(proposed * c2 + c1 + rest + alpha**proposed * cost[missing - proposed - 1])
    return cost[K]


def two_level_factor(alpha1, alpha2, K, k, c1, c2):
    """How much faster than plain decoding with a draft for the draft, at v = 1."""
    return emitted(alpha1, K) / (drafting_cost(alpha2, K, k, c1, c2) + 1)


def best_two_levels(alpha1, alpha2, c1, c2, most=16):
    """(factor, K, k) of the best K up to `most` and k below K, the smallest among equals."""
    pairs = [(K, k) for K in range(1, most + 1) for k in range(K)]
    K, k = max(pairs, key=lambda pair: two_level_factor(alpha1, alpha2, *pair, c1, c2))
    return two_level_factor(alpha1, alpha2, K, k, c1, c2), K, k


def operations_factor(alpha, K, c_ops):
    """How many more arithmetic operations than plain decoding, Theorem 3.11."""
    return (K * c_ops + K + 1) / emitted(alpha, K)


def memory_access_factor(alpha, K, c_bytes=0):
    """How many of the bytes that plain decoding reads, section 3.4."""
    return (K * c_bytes + 1) / emitted(alpha, K)


def best_K(alpha, c, v=1, most=1000):
    """The K with the largest walltime factor; 0 where none is above 1."""
    best, best_factor = 0, 1
    for K in range(1, most + 1):
        factor = walltime_factor(alpha, K, c, v)
        if factor > best_factor + 1e-12:
            best, best_factor = K, factor
        elif best > 0 and factor < best_factor / 2 or alpha**K < 1e-9:
            break  # the factor has one peak, and this is far past it, or no further draft is accepted
    return best


def oracle_factor(alpha, c):
    """The walltime factor of an oracle that drafts exactly what will be accepted."""
    return 1 / (1 - alpha + c * alpha)


# Bytes of a weight in a layer and in the head, without int8's scale for each output. q4 has a scale and a minimum for 32.
WEIGHT_BYTES = {"bf16": (2, 2), "int8": (1, 1), "q4": (20 / 32, 1)}


class Shape:
    """A Llama by its sizes: parameters, and bytes that a decode step reads, at 2 bytes a number."""

    def __init__(self, d_model, d_ff, n_layers, n_heads, n_kv_heads, head_dim, vocab_size, tied=True):
        attention = 2 * d_model * head_dim * (n_heads + n_kv_heads)
        self.head = vocab_size * d_model
        self.matrices = n_layers * (attention + 3 * d_model * d_ff) + self.head
        self.parameters = self.matrices + (2 * n_layers + 1) * d_model + (0 if tied else self.head)
        # A table of embeddings that is not the head as well is not streamed: a step reads one row of it.
        self.weight_bytes = self.weight_bytes_in("bf16")
        self.cache_bytes_per_token = 2 * 2 * n_layers * n_kv_heads * head_dim

    def weight_bytes_in(self, weights):
        in_layer, in_head = WEIGHT_BYTES[weights]
        return in_layer * (self.matrices - self.head) + in_head * self.head

    def step_bytes(self, cached=0, weights="bf16"):
        return self.weight_bytes_in(weights) + cached * self.cache_bytes_per_token


SHAPES = {
    "draft (embedded)": Shape(128, 256, 2, 4, 1, 64, 4096),
    "target (embedded)": Shape(192, 768, 6, 3, 1, 128, 4096),
    "1B": Shape(2048, 8192, 16, 32, 8, 64, 128256),
    "3B": Shape(3072, 8192, 28, 24, 8, 128, 128256),
    "SmolLM2-135M": Shape(576, 1536, 30, 9, 3, 64, 49152),
    "SmolLM2-360M": Shape(960, 2560, 32, 15, 5, 64, 49152),
    "SmolLM2-1.7B": Shape(2048, 8192, 24, 32, 32, 64, 49152),
    "8B": Shape(4096, 14336, 32, 32, 8, 128, 128256, tied=False),
    "70B": Shape(8192, 28672, 80, 64, 8, 128, 128256, tied=False),
}


def bytes_c(draft, target, cached=0, draft_weights="bf16"):
    """c where time is bytes: what the draft reads a step over what the target reads."""
    return SHAPES[draft].step_bytes(cached, draft_weights) / SHAPES[target].step_bytes(cached)


def check():
    assert SHAPES["1B"].parameters == 1235814400 and SHAPES["3B"].parameters == 3212749824
    assert [SHAPES[f"SmolLM2-{size}"].parameters for size in ("135M", "360M", "1.7B")] == [134515008, 361821120, 1711376384]
    assert SHAPES["8B"].parameters == 8030261248 and SHAPES["70B"].parameters == 70553706496
    assert SHAPES["target (embedded)"].weight_bytes == 9240576 and SHAPES["1B"].cache_bytes_per_token == 32768
    assert SHAPES["1B"].weight_bytes_in("q4") == 870842368 and SHAPES["1B"].weight_bytes_in("int8") == 1235746816
    assert emitted(1, 5) == 6 and emitted(0, 5) == 1 and emitted(0.5, 2) == 1.75
    assert abs(walltime_factor(0.8, 5, 0) - 3.68928) < 1e-9
    # Table 1 of the paper, whose draft costs nothing: alpha, K, operations, speedup. The bytes are 1 / speedup.
    for alpha, K, *printed in ((0.6, 2, 1.53, 1.96), (0.7, 3, 1.58, 2.53), (0.8, 2, 1.23, 2.44), (0.8, 5, 1.63, 3.69),
                               (0.9, 2, 1.11, 2.71), (0.9, 10, 1.60, 6.86)):
        found = operations_factor(alpha, K, 0), walltime_factor(alpha, K, 0)
        assert all(abs(ours - theirs) < 0.00501 for ours, theirs in zip(found, printed)), (alpha, K, found)
        assert abs(memory_access_factor(alpha, K) * walltime_factor(alpha, K, 0) - 1) < 1e-12
    assert operations_factor(0.5, 3, 0.5) == 5.5 / 1.875 and memory_access_factor(0.5, 3, 0.125) == 1.375 / 1.875
    assert operations_factor(1, 5, 0) == 1 == operations_factor(0.5, 0, 0.3) == memory_access_factor(0.5, 0, 0.3)
    assert abs(oracle_factor(0.75, 0.5) - 4 / 2.5) < 1e-12 and oracle_factor(1, 0.25) == 4
    assert best_K(0.7, bytes_c("1B", "3B")) == 2 and best_K(0.3, 0.4) == 0 and best_K(0.99, 0.01) > 10
    assert best_K(0.99, 0.01, v=5) > 10
    assert abs(drafting_cost(0.5, 3, 2, 0.4, 0.05) - 0.925) < 1e-12 and drafting_cost(0.5, 1, 2, 0.4, 0.05) == 0.4
    assert all(abs(drafting_cost(0.427, K, K - 1, 1, 0) - (K - (K - 1) * 0.427)) < 1e-12 for K in range(1, 9))
    assert abs(two_level_factor(0.7, 0.4, 5, 0, 0.385, 0.01) - walltime_factor(0.7, 5, 0.385)) < 1e-12
    # The oracle is at most e / (e - 1) times as fast as the best K if plain decoding, K = 0, is among them.
    over = lambda a, c, least: oracle_factor(a, c) / max(walltime_factor(a, K, c) for K in range(least, 120))
    pairs = [(a / 50, c / 50) for a in range(2, 50, 4) for c in range(1, 51, 4)]
    assert max(over(a, c, 0) for a, c in pairs) < math.e / (math.e - 1) < over(0.1, 1, 1) and f"{over(0.1, 1, 1):.2f}" == "1.82"
    assert all(best_K(a / 50, c) == max(range(200), key=lambda K: (walltime_factor(a / 50, K, c), -K))
               for a in range(49) for c in (0.01, 0.05, 0.2, 0.385))
    check_errors_of_the_sources()
    print("ok")


def check_errors_of_the_sources():
    """The numbers of the exercises of docs/theory/more.md."""
    shown = lambda values: " ".join(f"{value:.2f}" for value in values)
    # The sum of Stratos's footnote, and what is missing.
    assert shown([sum(0.2 * 0.8**(t - 1) * t for t in range(1, 12)), emitted(0.8, 10), 11 * 0.8**11]) == "3.63 4.57 0.94"
    # A rate of accepted / drafted, and the best K for it.
    rate = lambda alpha, K: (emitted(alpha, K) - 1) / K
    assert shown([rate(0.9651, 5), rate(0.7773, 5), rate(0.7773, 1), rate(0.7773, 10)]) == "0.90 0.50 0.78 0.32"
    assert [best_K(alpha, c) for alpha in (0.9651, 0.7773) for c in (0.02, 0.385)] == [39, 8, 10, 2]
    assert shown(walltime_factor(0.7773, K, c) for K, c in ((10, 0.02), (5, 0.02), (2, 0.385), (5, 0.385))) == "3.51 3.18 1.35 1.20"
    assert shown(walltime_factor(0.9651, K, 0.385) for K in (8, 5)) == "1.92 1.88"
    # Lenience: the largest factors by the theorem, and those of argmax decoding at K = 8.
    best = [best_K(alpha, 0.015) for alpha in (0.62, 0.71, 0.76, 0.84)]
    assert best == [7, 9, 10, 15]
    assert shown(walltime_factor(alpha, K, 0.015) for alpha, K in zip((0.62, 0.71, 0.76, 0.84), best)) == "2.33 2.94 3.45 4.79"
    assert shown(walltime_factor(alpha, 8, 0.015) for alpha in (0.75, 0.75, 0.8, 0.87)) == "3.30 3.30 3.87 4.91"
    # Measured speedups of 3.1 and 2.3, above what any K gives.
    assert shown([1 / (1 - 0.65), emitted(0.65, 5), 1 / (1 - 0.53)]) == "2.86 2.64 2.13"


if __name__ == "__main__":
    check()

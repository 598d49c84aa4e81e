#!/usr/bin/env python3
"""Numbers of the chapters 5 and 7 that need no run of a program: they are enumerated with fractions, or computed.

    python3 docs/experiments/exact.py     checks that block verification is lossless, and prints how much it accepts

tables.py puts the tables into the pages.
"""
import fractions
import itertools
import math

import formulas
from table_text import Tables, number

F = fractions.Fraction
TWO_WORDS = ([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)])                                # p and q of the paper's example
AFTER_THE = ([F(5, 100), F(70, 100), F(5, 100), F(20, 100)], [F(25, 100), F(45, 100), F(20, 100), F(10, 100)])
TABLES = table = Tables()


# --- verification of a round whose rows are all p and q ---

def normed(weights):
    total = sum(weights)
    return [weight / total for weight in weights]


def token_by_token(p, q, drafted):
    """The lesson's rule: how many tokens are accepted -> (with what probability, distribution of the next token)."""
    found, reached = {}, F(1)
    for accepted, x in enumerate(drafted):
        accept = min(F(1), p[x] / q[x])
        if accept < 1:
            found[accepted] = reached * (1 - accept), normed([max(a - b, 0) for a, b in zip(p, q)])
        reached *= accept
    found[len(drafted)] = reached, p
    return found


def by_blocks(p, q, drafted):
    """The same of block verification (Sun et al., 2024, algorithm 2). The longest part that passes its test is kept."""
    products = [F(1)]                                       # of p/q, cut off at 1 after each token
    for x in drafted:
        products.append(min(F(1), products[-1] * p[x] / q[x]))
    found, longer_fails = {}, F(1)
    for accepted in range(len(drafted), -1, -1):
        product = products[accepted]
        owed = [max(product * a - b, 0) for a, b in zip(p, q)]
        passes = (product if accepted == len(drafted) else
                  F(1) if accepted == 0 else sum(owed) / (sum(owed) + 1 - product) if sum(owed) else F(0))
        if passes * longer_fails:
            found[accepted] = passes * longer_fails, p if accepted == len(drafted) else normed(owed)
        longer_fails *= 1 - passes
    return found


def rounds(rule, rows, K):
    """Every round of K drafted tokens: (probability, drafted, accepted, distribution of the token after them)."""
    p, q = rows
    for drafted in itertools.product(range(len(p)), repeat=K):
        drawn = math.prod(q[x] for x in drafted)
        for accepted, (share, following) in rule(p, q, drafted).items():
            yield drawn * share, drafted, accepted, following


def accepted_per_round(rule, rows, K):
    return sum(probability * accepted for probability, _, accepted, _ in rounds(rule, rows, K))


def all_accepted(rule, rows, K):
    return sum(probability for probability, _, accepted, _ in rounds(rule, rows, K) if accepted == K)


def law(rule, rows, K):
    """The distribution of the first K + 1 tokens: a round's, and the rest from p."""
    p, total = rows[0], {}
    for probability, drafted, accepted, following in rounds(rule, rows, K):
        for rest in itertools.product(range(len(p)), repeat=K + 1 - accepted):
            text = drafted[:accepted] + rest
            share = probability * following[rest[0]] * math.prod(p[x] for x in rest[1:])
            total[text] = total.get(text, 0) + share
    return total


def is_lossless(rule, rows, K):
    p = rows[0]
    return all(share == math.prod(p[x] for x in text) for text, share in law(rule, rows, K).items())


@table
def drafted_pairs(_):
    p, q = TWO_WORDS
    names = {(0, 0): "first word twice", (0, 1): "first, second", (1, 0): "second, first", (1, 1): "second word twice"}
    rows = []
    for (x, y), name in names.items():
        rows.append([name, str(q[x] * q[y]), str(p[x] * p[y]), str(min(q[x] * q[y], p[x] * p[y]))])
    return "drafted|probability under q|under p|minimum", rows


@table
def block_verification(_):
    rows = [[str(K), *(number(float(accepted_per_round(rule, AFTER_THE, K))) for rule in (token_by_token, by_blocks))]
            for K in range(1, 5)]
    return "K|accepted per round, token by token|by blocks", rows


# --- a draft for the draft ---

@table
def two_levels(_):
    """The pair of 3B and 1B with a bigram table below the draft: the best of all K and k."""
    c1, c2 = 0.392, 0.033
    rows = []
    for alpha1 in (0.5, 0.7, 0.8, 0.9):
        K = formulas.best_K(alpha1, c1)
        row = [f"{alpha1}", f"{number(formulas.walltime_factor(alpha1, K, c1))} (K {K})"]
        for alpha2 in (0.3, 0.5, 0.7):
            factor, K, k = formulas.best_two_levels(alpha1, alpha2, c1, c2)
            row.append(f"{number(factor)} (K {K}, " + (f"k {k})" if k else "one level)"))
        rows.append(row)
    return "alpha1|one level|alpha2 = 0.3|alpha2 = 0.5|alpha2 = 0.7", rows


# --- races ---

def races_agree(p, q):
    return sum(1 / sum(max(b / p[i], d / q[i]) for b, d in zip(p, q)) for i in range(len(p)) if p[i] and q[i])


@table
def agreement(_):
    short = lambda x: f"{float(x):.3f}".rstrip("0")
    rows = []
    for p, q in (AFTER_THE, ([F(4, 10), F(3, 10), F(2, 10), F(1, 10)], [F(35, 100), F(35, 100), F(15, 100), F(15, 100)]),
                 ([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)]), ([F(1, 2), F(1, 2), F(0)], [F(0), F(1, 2), F(1, 2)])):
        beta = sum(map(min, p, q))
        decimals = lambda row: ", ".join(f"{float(x):g}" for x in row)
        rows.append([decimals(p), decimals(q), number(float(beta)), short(races_agree(p, q)), short(beta / (2 - beta))])
    return "p|q|beta|races agree|beta / (2 - beta)", rows


def share_won(p, bits):
    """Of the races that a token of probability p should win, the share that it wins if the uniforms are multiples of
    2^-bits: u = 1 - j 2^-bits wins against all other tokens together with probability u^((1 - p) / p)."""
    h = 2.0 ** -bits / p
    last = min(2 ** bits, int(50 / h))
    return h * math.fsum((1 - j * 2.0 ** -bits) ** ((1 - p) / p) for j in range(1, last + 1))


@table
def race_bits(_):
    rows = []
    for p in (1e-6, 1e-7, 1e-8):
        h = 2.0 ** -53 / p                                  # 1 - h / (exp(h) - 1), without cancellation
        rows.append([f"{p:.0e}".replace("e-0", "e-"), f"{share_won(p, 24):.2g}", f"off by {h / 2:.0e}".replace("e-0", "e-")])
    return "p|share won with 24 bits|with 53 bits", rows


def main():
    for name, rows in (("two words", TWO_WORDS), ('the row after "the"', AFTER_THE)):
        for rule in (token_by_token, by_blocks):
            for K in range(1, 5 if len(rows[0]) == 2 else 4):
                if not is_lossless(rule, rows, K):
                    raise SystemExit(f"{name}, K = {K}: {rule.__name__} changes the distribution")
    for p in (1e-6, 1e-7, 1e-8):                            # the page's formula
        h = 2.0 ** -24 / p
        if not abs(share_won(p, 24) - h / math.expm1(h)) < 1e-4:
            raise SystemExit(f"a share of h / (exp(h) - 1) is not what a token of {p} wins")
    print("both rules are lossless")
    for name, rule in (("token by token", token_by_token), ("by blocks", by_blocks)):
        print(f"{name}: {accepted_per_round(rule, TWO_WORDS, 2)} accepted per round, both tokens with probability "
              f"{all_accepted(rule, TWO_WORDS, 2)}")


if __name__ == "__main__":
    main()

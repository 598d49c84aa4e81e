"""Random numbers by key and counter: Philox4x32-10.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). There is no state: whoever
names a draw gets its number, in any order, on any machine.
"""
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF
ROUNDS = 10

# What a draw is for. `target` serves plain sampling and the bonus token; `race` belongs to the coupled verifier.
PURPOSES = {"draft": 0, "accept": 1, "resample": 2, "target": 3, "race": 4}


def philox4x32(counter, key):
    """Four 32-bit words from a counter of four and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        product0, product1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = product1 >> 32 ^ c1 ^ k0, product1 & MASK, product0 >> 32 ^ c3 ^ k1, product0 & MASK
        k0, k1 = k0 + KEY_STEPS[0] & MASK, k1 + KEY_STEPS[1] & MASK
    return c0, c1, c2, c3


def uniform(seed, position, purpose, index=0):
    """The draw of this request's seed for a token's absolute position and a purpose, in [0, 1).

    Key: the seed, low word first. Counter: (position, purpose, index, 0); index is 0 but for `race`, where it is
    the token id. The upper 27 bits of the first word and the upper 26 of the second are a multiple of 2^-53.
    """
    first, second = philox4x32((position, PURPOSES[purpose], index, 0), (seed & MASK, seed >> 32))[:2]
    return ((first >> 5 << 26) + (second >> 6)) * 2.0 ** -53

"""How many clocks an iteration of a loop takes by its machine code alone, for a warp that has its scheduler to itself.

In an instruction of compute capability 7.0 to 10.0, bits 105 to 108 say how many clocks pass until the warp issues its
next one. An instruction whose result takes longer counts on one of six scoreboards (bits 110 to 112), and bits 116 to
121 say for which of them an instruction waits first (Jia et al. 2018, "Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking"). SHARED_LATENCY is assumed, and so is that no other warp is in the way: a lower bound, and a measure
to compare two listings by, not a time.
"""
import re

SHARED_LATENCY = 30   # clocks from a load to its value
OTHER_LATENCY = 30    # of any other instruction that counts on a scoreboard
ROUNDS = 6            # after which all iterations take the same time
NO_SCOREBOARD = 7
CODE = re.compile(r"/\* 0x([0-9a-f]{16}) \*/\s*$")


def instructions(lines):
    """(text, upper half of its encoding) of each instruction of a listing by nvdisasm -hex, whose next line has it."""
    found = []
    for line in lines:
        code = CODE.search(line)
        text = re.sub(r"/\*.*?\*/", "", line).strip()
        if code and text:
            found.append([text, None])
        elif code and found and found[-1][1] is None:
            found[-1][1] = int(code[1], 16)
    return found


def bits(code, first, count):
    return code >> (first - 64) & (1 << count) - 1


def clocks_of(loop):
    """Clocks of an iteration. loop: its lines, as above."""
    body = instructions(loop)
    now, ready, begins = 0, [0] * 8, []
    for _ in range(ROUNDS):
        begins.append(now)
        for text, code in body:
            waits = bits(code, 116, 6)
            now = max([now] + [ready[i] for i in range(6) if waits >> i & 1])
            scoreboard = bits(code, 110, 3)
            latency = SHARED_LATENCY if re.match(r"(@\S+ )?LDS", text) else OTHER_LATENCY
            if scoreboard != NO_SCOREBOARD:
                ready[scoreboard] = max(ready[scoreboard], now + latency)
            now += max(1, bits(code, 105, 4))
    return begins[-1] - begins[-2]

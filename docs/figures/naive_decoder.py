#!/usr/bin/env python3
"""Draws the figures of the chapter on the naive decoder: python3 docs/figures/naive_decoder.py

Writes SVG files beside itself.
"""
import math

from picture import BLUE, GREEN, GROUND, INK, PALE_BLUE, PALE_GREEN, PALE_RED, PALE_YELLOW, Picture, RED, SOFT


def adder(p, x, y):
    p.circle(x, y, 10, fill=GROUND)
    p.text(x, y + 5, "+", 16)


def forward_pass():
    """The residual stream with its two branches, and the golden name of what flows where."""
    p = Picture(720, 700, "The way of a token through a Llama")
    stream = 130
    name = lambda x, y, words: p.text(x, y, words, 12, "start", BLUE, mono=True)

    p.text(stream, 28, "token ids", 13)
    p.line([(stream, 34), (stream, 50)], tip=True)
    p.box(60, 50, 140, 28, PALE_YELLOW, "embedding table")
    p.line([(stream, 78), (stream, 110)], width=4, colour=SOFT)
    name(stream + 10, 99, "embedding")

    p.parts.append(f'<rect x="30" y="110" width="660" height="440" rx="6" fill="none" '
                   f'stroke="{SOFT}" stroke-dasharray="6 4"/>')
    p.text(680, 130, "one block; n_layers of them", 12, "end", SOFT)
    p.line([(stream, 110), (stream, 318)], width=4, colour=SOFT)
    p.line([(stream, 338), (stream, 510)], width=4, colour=SOFT)
    p.text(50, 245, "residual", 12, "start", SOFT)
    p.text(50, 261, "stream", 12, "start", SOFT)

    # attention
    p.line([(stream, 150), (230, 150)], tip=True)
    p.box(230, 136, 80, 28, PALE_GREEN, "RMSNorm")
    name(318, 146, "attn_norm")
    p.line([(310, 154), (402, 154)])
    for y, matrix, label in ((170, "q_proj", "q"), (210, "k_proj", "k"), (250, "v_proj", "v")):
        p.line([(402, 154), (402, y + 14), (420, y + 14)], tip=True)
        p.box(420, y, 66, 28, PALE_YELLOW, matrix)
        name(492, y + 10, label)
    for y, label in ((170, "q_rope"), (210, "k_rope")):
        p.line([(486, y + 14), (520, y + 14)], tip=True)
        p.box(520, y, 54, 28, PALE_GREEN, "RoPE")
        name(580, y + 10, label)
        p.line([(574, y + 14), (640, y + 14), (640, 300)])
    p.line([(486, 264), (640, 264)])
    p.line([(640, 290), (640, 314), (560, 314)], tip=True)
    p.box(424, 300, 136, 28, PALE_RED, "attention, H heads")
    name(340, 308, "attn_out")
    p.line([(424, 314), (300, 314), (300, 328), (292, 328)], tip=True)
    p.box(226, 314, 66, 28, PALE_YELLOW, "o_proj")
    p.line([(226, 328), (142, 328)], tip=True)
    adder(p, stream, 328)
    name(stream + 10, 360, "attn_residual")

    # MLP
    p.line([(stream, 380), (230, 380)], tip=True)
    p.box(230, 366, 80, 28, PALE_GREEN, "RMSNorm")
    name(318, 376, "mlp_norm")
    p.line([(310, 384), (402, 384)])
    for y, matrix, label in ((396, "gate_proj", "gate"), (440, "up_proj", "up")):
        p.line([(402, 384), (402, y + 14), (420, y + 14)], tip=True)
        p.box(420, y, 76, 28, PALE_YELLOW, matrix)
        name(502, y + 10, label)
    p.line([(496, 410), (545, 410)], tip=True)
    p.box(545, 396, 54, 28, PALE_GREEN, "SiLU")
    p.line([(599, 410), (640, 410), (640, 478)])
    p.line([(496, 454), (640, 454)])
    p.circle(640, 488, 10, fill=GROUND)
    p.text(640, 493, "×", 15)
    p.line([(630, 488), (500, 488), (500, 520), (440, 520)], tip=True)
    p.box(354, 506, 86, 28, PALE_YELLOW, "down_proj")
    name(280, 514, "mlp_out")
    p.line([(354, 520), (142, 520)], tip=True)
    adder(p, stream, 520)
    p.line([(stream, 530), (stream, 580)], width=4, colour=SOFT)
    name(stream + 10, 572, "residual, of the last block")

    p.box(85, 580, 90, 28, PALE_GREEN, "RMSNorm")
    p.line([(175, 594), (310, 594)], tip=True)
    name(184, 588, "final_norm")
    p.box(310, 580, 150, 28, PALE_YELLOW, "head, often tied")
    p.line([(460, 594), (560, 594)], tip=True)
    name(476, 588, "logits")
    p.text(568, 599, "[T, vocab_size]", 13, "start")

    p.box(60, 640, 18, 14, PALE_YELLOW)
    p.text(84, 652, "reads a weight matrix", 12, "start")
    p.box(250, 640, 18, 14, PALE_GREEN)
    p.text(274, 652, "each token alone", 12, "start")
    p.box(400, 640, 18, 14, PALE_RED)
    p.text(424, 652, "the only place where tokens meet", 12, "start")
    p.text(60, 680, "Blue: the names of the golden tensors, and of the observer's calls.", 12, "start", BLUE)
    p.write("forward_pass.svg")


def rope():
    """Left: which elements are a pair. Right: what positions do to a fast and to a slow pair."""
    p = Picture(720, 330, "RoPE turns pairs of elements")
    p.text(180, 30, "one head, D = 8: which elements are a pair", 13, bold=True)
    cell, left = 34, 44
    colours = [RED, BLUE, GREEN, "#7a4fa3"]
    for row, (y, caption) in enumerate(((110, "here: halves, i with i + D/2"),
                                        (235, "elsewhere: neighbours, 2i with 2i + 1"))):
        for i in range(8):
            pair = i % 4 if row == 0 else i // 2
            p.box(left + i * cell, y, cell - 4, cell - 4, GROUND, str(i), stroke=colours[pair])
        middle = lambda i: left + i * cell + (cell - 4) / 2
        for pair in range(4):
            first, second = (pair, pair + 4) if row == 0 else (2 * pair, 2 * pair + 1)
            p.arc(middle(first), y - 3, middle(second), 60 if row == 0 else 34, colours[pair])
        p.text(180, y + 52, caption, 12, colour=INK if row == 0 else SOFT)

    p.text(530, 30, "the same pair at positions 0 to 5", 13, bold=True)
    for x, frequency, caption, note in ((440, 1.0, "pair 0: frequency 1", "1 radian per token"),
                                        (620, 0.2, "a later pair: 0.2", "0.2 radians per token")):
        y, radius = 160, 72
        p.circle(x, y, radius, stroke=SOFT, width=1)
        p.line([(x - radius - 8, y), (x + radius + 8, y)], SOFT, 0.8)
        p.line([(x, y - radius - 8), (x, y + radius + 8)], SOFT, 0.8)
        for t in range(6):
            angle = 0.35 + t * frequency
            end = (x + radius * math.cos(angle), y - radius * math.sin(angle))
            p.line([(x, y), end], BLUE if t else RED, 2.2 - 0.2 * t, tip=t == 0)
            p.text(x + (radius + 13) * math.cos(angle), y - (radius + 13) * math.sin(angle) + 4,
                   str(t), 11, colour=BLUE if t else RED)
        p.text(x, 268, caption, 12)
        p.text(x, 285, note, 12, colour=SOFT)
    p.text(530, 312, "lengths never change: a rotation keeps the norm", 12, colour=SOFT)
    p.write("rope.svg")


def grouped_query_attention():
    """Who reads whose keys and values."""
    p = Picture(720, 230, "Query heads share key and value heads")
    def group(left, n_heads, n_kv, title, note, step=32):
        size, per = step - 6, n_heads // n_kv
        p.text(left + n_heads * step / 2 - 3, 30, title, 13, bold=True)
        for h in range(n_heads):
            x = left + h * step
            kv = left + (h // per * per + (per - 1) / 2) * step
            p.line([(x + size / 2, 82), (kv + size / 2, 140)], SOFT)
            p.box(x, 54, size, size, PALE_BLUE, str(h), size=12)
        for k in range(n_kv):
            x = left + (k * per + (per - 1) / 2) * step
            p.box(x, 140, size, size, PALE_YELLOW, str(k), size=12)
        p.text(left + n_heads * step / 2 - 3, 196, note, 12, colour=SOFT)
    group(60, 8, 2, "1B: 32 query heads, 8 key heads", "the first 8 and 2 of them; groups of 4")
    group(360, 6, 2, "3B: 24 and 8", "the first 6 and 2; groups of 3")
    group(598, 3, 1, "target: 3 and 1", "a group of 3")
    p.text(50, 73, "q", 13, "end", mono=True)
    p.text(50, 159, "k, v", 13, "end", mono=True)
    p.write("grouped_query_attention.svg")


def recomputation():
    """The rows of each pass, for a prompt of 6 tokens and 8 new ones."""
    prompt, new, cell = 6, 8, 24
    p = Picture(720, 300, "What a decoder without a cache computes")
    left, top = 190, 48
    p.text(left, 28, "rows (tokens sent through all layers) of each pass", 13, "start", bold=True)
    for i in range(new):
        y = top + i * (cell + 2)
        p.text(left - 12, y + 17, f"new token {i + 1}", 12, "end")
        for t in range(prompt + i):
            fresh = i == 0 or t == prompt + i - 1
            p.box(left + t * (cell + 2), y, cell, cell, PALE_BLUE if fresh else PALE_RED,
                  stroke=BLUE if fresh else RED)
        p.text(left + (prompt + i) * (cell + 2) + 10, y + 17, str(prompt + i), 12, "start", SOFT)
    computed = sum(prompt + i for i in range(new))
    needed = prompt + new - 1
    x = 560
    p.text(x, 190, f"{computed} rows computed", 13, "start")
    p.box(x, 204, 14, 14, PALE_BLUE, stroke=BLUE)
    p.text(x + 20, 216, f"{needed} for the first time", 12, "start")
    p.box(x, 226, 14, 14, PALE_RED, stroke=RED)
    p.text(x + 20, 238, f"{computed - needed} again", 12, "start")
    p.text(left, 284, "A prompt of 6 tokens, 8 new ones.", 12, "start", SOFT)
    p.write("recomputation.svg")


def matmul():
    """One row of a weight matrix makes one output of every row."""
    p = Picture(720, 270, "One row of a weight matrix serves all tokens of a pass")
    cell = 22

    def grid(left, top, rows, columns, plain, marked, is_marked):
        for row in range(rows):
            for column in range(columns):
                hit = is_marked(row, column)
                p.box(left + column * cell, top + row * cell, cell - 2, cell - 2, marked if hit else plain)

    p.text(140, 30, "weight [outputs, inputs]", 13, bold=True)
    grid(52, 50, 7, 8, GROUND, PALE_YELLOW, lambda row, column: row == 2)
    p.text(44, 50 + 2 * cell + 15, "o", 13, "end", mono=True)
    p.text(250, 50 + 2 * cell + 17, "·", 22)
    p.text(360, 30, "x [T, inputs]", 13, bold=True)
    grid(272, 50, 4, 8, PALE_BLUE, PALE_BLUE, lambda row, column: False)
    p.line([(456, 93), (498, 93)], tip=True)
    p.text(600, 30, "y [T, outputs]", 13, bold=True)
    grid(524, 50, 4, 7, GROUND, PALE_GREEN, lambda row, column: column == 2)
    p.text(524 + 2.5 * cell - 1, 155, "o", 13, mono=True)
    p.text(516, 65, "t = 0", 11, "end", SOFT)
    p.text(516, 65 + 3 * cell, "3", 11, "end", SOFT)
    p.text(52, 236, "Row o of the weights is read from memory once. Its dot products with all rows of x are "
           "column o of y.", 12, "start")
    p.text(52, 254, "More tokens in a pass: more dot products, but no more weights to read.", 12, "start", SOFT)
    p.write("01_matmul.svg")


def silu():
    """silu beside its two limits."""
    p = Picture(720, 300, "silu(z) = z / (1 + exp(-z))")
    left, right, top, bottom, low, high = 70, 480, 30, 260, -6, 6
    place = lambda z, y: (left + (z - low) / (high - low) * (right - left), bottom - (y + 1) / 7 * (bottom - top))
    for z in range(low, high + 1, 2):
        x, y = place(z, 0)
        p.line([(x, top), (x, bottom)], SOFT, 0.4)
        p.text(x, bottom + 18, str(z), 12, colour=SOFT)
    for y in range(-1, 7):
        p.line([place(low, y), place(high, y)], SOFT, 0.4 if y else 1.2)
        p.text(left - 8, place(low, y)[1] + 4, str(y), 12, "end", SOFT)
    p.line([place(low, 0), place(0, 0), place(6, 6)], RED, 1.5, dashed=True)
    steps = [low + i * (high - low) / 120 for i in range(121)]
    p.line([place(z, z / (1 + math.exp(-z))) for z in steps], BLUE, 2.5)
    p.text((left + right) / 2, bottom + 36, "z, a number of gate", 12)
    p.text(510, 80, "silu(z)", 13, "start", BLUE)
    p.text(510, 102, "z where z > 0, else 0", 13, "start", RED)
    p.text(510, 150, "silu(4) = 3.93: open", 12, "start")
    p.text(510, 170, "silu(0) = 0", 12, "start")
    p.text(510, 190, "silu(-1.28) = -0.28: the lowest", 12, "start")
    p.text(510, 210, "silu(-6) = -0.015: closed", 12, "start")
    p.write("01_silu.svg")


if __name__ == "__main__":
    forward_pass()
    rope()
    grouped_query_attention()
    recomputation()
    matmul()
    silu()

#!/usr/bin/env python3
"""Reads the machine code of the kernels that bound decoding, and checks that their loads are in flight together.

usage: test_listings.py FOLDER

Compiles them with nvcc, and disassembles the result; no GPU is needed. With SPECDEC_FULL=1 for three generations of
GPUs, otherwise for Hopper, which takes a third of the time. nvdisasm comes with the CUDA toolkit, or else is installed
from PyPI into FOLDER. Exit code 77: no nvcc, or no nvdisasm available.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import venv

import clocks

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
KERNELS = REPOSITORY / "kernels/cuda"
ARCHITECTURES = (80, 90, 100) if os.environ.get("SPECDEC_FULL") else (90,)  # A100; H100 and H200; B200
NVDISASM = "nvidia-cuda-nvdisasm==13.5.37"
# A source, the part of a mangled name that identifies a kernel, and what must be true of the kernel: the least number
# of loads, with their bits, before it waits for the first one; and the most registers, which determine how many blocks
# share a multiprocessor.
HOT = [
    ("attention/attention_4_split.cu", "attention_piece_kernelILb1ELi2Ef", 4, 128, 168),
    ("attention/attention_4_split.cu", "attention_piece_kernelILb1ELi4Ef", 8, 128, 168),
    ("attention/attention_4_split.cu", "attention_piece_kernelILb1ELi2ENS_8BFloat16E", 2, 128, 168),
    ("attention/attention_4_split.cu", "attention_piece_kernelILb1ELi4ENS_8BFloat16E", 4, 128, 168),
    ("attention/attention_4_split.cu", "attention_piece_kernelILb1ELi2Ef", 64, 32, 168),   # the last block combines
    ("attention/attention_4_split.cu", "attention_piece_kernelILb1ELi4Ef", 64, 32, 168),
    ("argmax/argmax_2_block.cu", "argmax_block_kernel", 4, 128, 64),
    ("argmax/argmax_3_blocks.cu", "argmax_blocks_kernel", 4, 128, 64),
    ("matmul/matmul_4_rows.cu", "matmul_rows_kernelI13__nv_bfloat16Li1ELb1E", 6, 128, 128),
    ("matmul/matmul_4_rows.cu", "matmul_rows_kernelI13__nv_bfloat16Li8ELb1E", 10, 128, 168),
    ("matmul/matmul_4_rows.cu", "matmul_rows_kernelI13__nv_bfloat16Li16ELb1E", 12, 128, 255),
    ("matmul/matmul_5_mma.cu", "matmul_mma_kernel", 2, 128, 64),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi1ELi4E", 8, 128, 128),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi1ELi8E", 8, 128, 255),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi2ELi4E", 4, 128, 255),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li4ELi1ELi1ELi2ELi2E", 8, 128, 168),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li4ELi4ELi2ELi2ELi1E", 8, 128, 255),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeIaLi2ELi1ELi1ELi1ELi4E", 4, 128, 128),
    ("matmul/matmul_7_tma.cu", "matmul_tma_kernelILi8E", 0, 128, 128),   # the copy engine loads
    ("matmul/matmul_7_tma.cu", "matmul_tma_kernelILi16E", 0, 128, 128),
    ("matmul/matmul_8_split.cu", "hand_over_kernel", 8, 32, 64),         # a lesson: operands as matmul_5_mma.cu has them
    ("matmul/matmul_8_split.cu", "add_part_kernel", 8, 32, 64),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeIaLi4ELi4ELi2ELi2ELi1E", 4, 128, 255),
    ("matmul/matmul_6_pipeline.cu", "2Q4ELi2ELi1ELi1ELi1ELi4E", 4, 128, 128),
    ("matmul/matmul_6_pipeline.cu", "2Q4ELi2ELi4ELi2ELi2ELi1E", 4, 128, 255),
    ("matmul/matmul_6_pipeline.cu", "2Q8ELi2ELi1ELi1ELi1ELi4E", 4, 128, 168),
    ("matmul/matmul_6_pipeline.cu", "2Q8ELi4ELi1ELi1ELi2ELi2E", 4, 128, 168),
    ("matmul/matmul_6_pipeline.cu", "2Q8ELi2ELi4ELi2ELi2ELi1E", 4, 128, 255),
    ("sampling/sampling_distribution.cu", "scores_kernel", 8, 32, 64),
    ("sampling/sampling_distribution.cu", "weights_kernel", 7, 32, 64),
    ("sampling/sampling_distribution.cu", "top_p_kernel", 8, 32, 64),
    ("sampling/sampling_distribution.cu", "draw_kernel", 8, 64, 64),
    ("sampling/sampling_search.cu", "bins_kernel", 8, 32, 64),
    ("sampling/sampling_search.cu", "last_token_kernel", 7, 32, 64),
    ("sampling/sampling_judge.cu", "envelope_kernel", 7, 64, 64),
    ("sampling/sampling_judge.cu", "judge_kernel", 16, 64, 64),
    ("sampling/sampling_judge.cu", "overlap_kernel", 16, 64, 64)]
# Products: a source, a name as above, an instruction of the loop over the inputs, the bytes of weights that a warp
# multiplies in one iteration, and the most instructions. The chapter compares the two ways to multiply by these.
LOOPS = [
    ("matmul/matmul_4_rows.cu", "matmul_rows_kernelI13__nv_bfloat16Li1ELb1E", "FFMA", 2048, 140),
    ("matmul/matmul_4_rows.cu", "matmul_rows_kernelI13__nv_bfloat16Li8ELb1E", "FFMA", 2048, 440),
    ("matmul/matmul_4_rows.cu", "matmul_rows_kernelI13__nv_bfloat16Li16ELb1E", "FFMA", 2048, 800),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi1ELi4E", "HMMA", 4096, 400),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi2ELi2E", "HMMA", 4096, 380),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li4ELi1ELi1ELi2ELi2E", "HMMA", 8192, 450),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi1ELi8E", "HMMA", 4096, 420),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeI13__nv_bfloat16Li2ELi1ELi1ELi2ELi4E", "HMMA", 4096, 400),
    ("matmul/matmul_6_pipeline.cu", "PipelineShapeIaLi2ELi1ELi1ELi1ELi4E", "HMMA", 2048, 560),
    ("matmul/matmul_6_pipeline.cu", "2Q4ELi2ELi1ELi1ELi1ELi4E", "HMMA", 1280, 580),
    ("matmul/matmul_6_pipeline.cu", "2Q8ELi2ELi1ELi1ELi1ELi4E", "HMMA", 2176, 620)]
# Products for many rows: the tile of 128 x 64, and by warpgroups, which only this architecture has. A warp multiplies the
# same number of inputs, outputs and rows in both.
LARGE_TILE = "PipelineShapeI13__nv_bfloat16Li4ELi4ELi2ELi2ELi1E"
WARPGROUPS = ("matmul/matmul_9_warpgroup.cu", "90a")
# Sources in which all kernels begin early, if the GPU supports it.
EARLY = ("rows.cu", "rope.cu", "rms_norm/rms_norm_3_vector.cu", "argmax/argmax_3_blocks.cu",
         "attention/attention_3_grouped.cu", "attention/attention_4_split.cu", "matmul/matmul_4_rows.cu",
         "matmul/matmul_6_pipeline.cu")
# Which of them load weights before they wait, and how: into L2, into shared memory, or both for few rows.
ASKS = {"matmul_rows": ["CCTL"], "rms_norm": ["CCTL"], "matmul_pipeline": ["LDGSTS"]}
TILE = re.compile(r"PipelineShapeI.*?Li\d+ELi(\d+)ELi\d+ELi(\d+)ELi\d+E")  # its rows are 8 times both
# Kernels that may use the read-only path, on memory that no kernel writes meanwhile: weights, and the table of sin.
READ_ONLY = ("matmul_rows_kernel", "rope_angles_kernel")
LOAD = re.compile(r"\bLDG?(\.\w+)*\s+R(\d+),|\bLDGSTS(\.\w+)*\s")  # LD: no space named; LDGSTS: into shared memory
SHARED_LOAD = re.compile(r"\bLDS(\.\w+)*\s+R(\d+),")
# Attention on an H100: the part of a kernel's name, and for the number of queries of a warp the most clocks (clocks.py)
# for four products of a score, and for one position's values. Before loads were made together, one query took 57 and 74
# of a float32 cache with heads of 128, and five took 80 and 250.
ATTENTION = [("attention_piece_kernelILb1ELi2Ef", {1: (13.2, 12), 3: (42, 36), 6: (62, 59)}),
             ("attention_piece_kernelILb1ELi4Ef", {1: (13.2, 12.1), 2: (28, 24), 5: (60, 54)}),
             ("attention_piece_kernelILb1ELi2ENS_8BFloat16E", {1: (21, 17), 3: (51, 39), 6: (69, 62)}),
             ("attention_piece_kernelILb1ELi4ENS_8BFloat16E", {1: (21, 21), 2: (31, 32), 5: (63, 74)})]
REGISTER = re.compile(r"\bR(\d+)\b")


def most_loads_together(listing, bits=32, loads_from=LOAD):
    """The most loads of at least `bits` bits from one memory in a row, before the first use of a loaded value, a wait, a
    branch or a barrier."""
    most, waiting, loads = 0, set(), 0
    for line in listing:
        instruction = re.sub(r"/\*.*?\*/", "", line).strip()
        if re.match(r"\.L_|(@!?U?P\d+ )?(BRA|BAR|EXIT|BSYNC|WARPSYNC|CALL|RET|DEPBAR)\b", instruction):
            waiting, loads = set(), 0
            continue
        load = loads_from.search(instruction)
        used = {int(r) for r in REGISTER.findall(instruction[load.end():] if load else instruction)}
        if used & waiting:
            waiting, loads = set(), 0
        if load:
            size = 128 if ".128" in load[0] else 64 if ".64" in load[0] else 32
            if load[2]:
                waiting |= set(range(int(load[2]), int(load[2]) + size // 32))
            loads += size >= bits
            most = max(most, loads)
    return most


def loops_in(lines):
    """The first and the last line of each loop."""
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    for end, line in enumerate(lines):
        branch = re.search(r"\bBRA\b.*`\((\.L\w+)\)", line)
        if branch and labels.get(branch[1], end) < end:
            yield labels[branch[1]], end


def without_comments(listing):
    return [re.sub(r"/\*.*?\*/", "", line).strip() for line in listing]


def inner_loops(listing):
    """The lines of each loop that has no other in it, and the line behind it: the rest of its last instruction."""
    loops = list(loops_in(without_comments(listing)))
    return [listing[a:b + 2] for a, b in loops if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)]


def attention_loops(listing):
    """Queries of a warp -> clocks for four products of a score, and for one position's values. For each number of
    queries a kernel has four loops: scores, several steps at a time; the steps that are left over; and so for values."""
    def multiplications(loop):
        return sum("FFMA" in line for line in loop)
    loops = [loop for loop in inner_loops(listing) if multiplications(loop) and SHARED_LOAD.search("".join(loop))]
    found = {}
    for scores, score, values, value in zip(*[iter(loops)] * 4, strict=True):
        found[multiplications(score) // 4] = tuple(
            clocks.clocks_of(many) * multiplications(one) / multiplications(many)
            for many, one in ((scores, score), (values, value)))
    return found


def loop_of(listing, opcode):
    """The instructions of the loop that has most of an opcode, without inner loops that have none, which are for
    unaligned rows."""
    lines = without_comments(listing)
    wanted = [i for i, line in enumerate(lines) if re.match(rf"{opcode}\b", line)]
    loops = list(loops_in(lines))
    def count(loop):
        return sum(loop[0] <= i <= loop[1] for i in wanted)
    first, last = max(loops, key=lambda loop: (count(loop), loop[0] - loop[1]))
    others = [loop for loop in loops if first <= loop[0] and loop[1] <= last and loop != (first, last)
              and count(loop) == 0]
    return [line for i, line in enumerate(lines) if first <= i <= last and re.match(r"(@!?U?P\w+ )?[A-Z]", line)
            and not any(a <= i <= b for a, b in others)]


def executed(listing, opcode, rounds):
    """The instructions of the loop around the one that has an opcode, which runs so many rounds; without inner loops that
    lack it."""
    lines = without_comments(listing)
    def count(loop, pattern):
        return sum(bool(re.match(pattern, line)) for line in lines[loop[0]:loop[1] + 1])
    loops = list(loops_in(lines))
    inner, outer = sorted((loop for loop in loops if count(loop, rf"{opcode}\b")), key=lambda loop: loop[1] - loop[0])
    others = [loop for loop in loops if outer[0] < loop[0] and loop[1] < outer[1] and loop != inner]
    instruction = r"(@!?U?P\w+ )?[A-Z]"
    return (count(outer, instruction) - sum(count(loop, instruction) for loop in others)
            + (rounds - 1) * count(inner, instruction))


def functions(text):
    """Mangled name -> lines."""
    parts = re.split(r"^\s*\.text\.(\S+):\s*$", text, flags=re.MULTILINE)
    return {name: body.splitlines() for name, body in zip(parts[1::2], parts[2::2])}


def compiled(nvcc, nvdisasm, folder, source, architecture):
    """(mangled name -> lines, the report of ptxas)"""
    cubin = folder / f"{pathlib.Path(source).stem}_{architecture}.cubin"
    done = subprocess.run([nvcc, "-std=c++20", "-fmad=false", "-O3", "-I", REPOSITORY, "-Xptxas", "-v", "--cubin",
                           "-gencode", f"arch=compute_{architecture},code=sm_{architecture}", "-o", cubin,
                           KERNELS / source], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    listing = subprocess.run([nvdisasm, "-c", "-hex", cubin], capture_output=True, text=True, check=True).stdout
    return functions(listing), done.stderr


class ListingsTest(unittest.TestCase):
    folder = nvcc = nvdisasm = None

    @classmethod
    def setUpClass(cls):
        sources = dict.fromkeys([source for source, *_ in HOT] + list(EARLY))
        jobs = [(source, a) for source in sources for a in ARCHITECTURES] + [WARPGROUPS]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda job: compiled(cls.nvcc, cls.nvdisasm, cls.folder, *job), jobs)
        cls.made = dict(zip(jobs, results))

    def test_what_is_promised(self):
        for source, name, fewest_loads, bits, most_registers in HOT:
            for architecture in ARCHITECTURES:
                with self.subTest(kernel=name, architecture=architecture):
                    listings, report = self.made[source, architecture]
                    [kernel] = [full for full in listings if name in full]
                    loads = most_loads_together(listings[kernel], bits)
                    said = report[report.index(f"'{kernel}'"):].split("Compiling", 1)[0]
                    registers = int(re.search(r"Used (\d+) registers", said)[1])
                    print(f"sm_{architecture} {name}: {loads} loads of {bits} bits together, {registers} registers")
                    self.assertGreaterEqual(loads, fewest_loads)
                    self.assertLessEqual(registers, most_registers)
                    self.assertIn("0 bytes spill stores, 0 bytes spill loads", said)

    def test_what_a_kernel_does_before_it_waits(self):
        """From compute capability 9.0 on, it loads weights, and reads and writes nothing else."""
        for source in EARLY:
            for architecture in ARCHITECTURES:
                for kernel, listing in self.made[source, architecture][0].items():
                    with self.subTest(kernel=kernel, architecture=architecture):
                        self.check_early(kernel, "\n".join(listing), architecture >= 90)

    def check_early(self, kernel, listing, waits):
        self.assertEqual(listing.count("ACQBULK"), waits, "griddepcontrol.wait")
        self.assertEqual(listing.count("PREEXIT"), waits, "griddepcontrol.launch_dependents")
        if waits:
            self.assertLess(listing.index("PREEXIT"), listing.index("ACQBULK"))
            before = re.sub(r".*@!PT\b.*", "", listing[:listing.index("ACQBULK")])  # @!PT: never executed
            self.assertIsNone(re.search(r"\b(LDG|STG|RED|ATOMG|EXIT|LDS|STS)\b", before))
            asks = [opcode for opcode in ("CCTL", "LDGSTS") if re.search(rf"\b{opcode}\b", before)]
            wanted = sum((opcodes for name, opcodes in ASKS.items() if name in kernel), [])
            if (tile := TILE.search(kernel)) and 8 * int(tile[1]) * int(tile[2]) <= 16:
                wanted = ["CCTL", *wanted]
            self.assertEqual(asks, wanted)
        if not any(name in kernel for name in READ_ONLY):
            self.assertIsNone(re.search(r"LDG\S*\.CONSTANT", listing))

    def test_instructions_for_a_products_bytes(self):
        for source, name, opcode, number_of_bytes, most in LOOPS:
            for architecture in ARCHITECTURES:
                with self.subTest(kernel=name, architecture=architecture):
                    listings, _ = self.made[source, architecture]
                    [kernel] = [full for full in listings if name in full]
                    loop = loop_of(listings[kernel], opcode)
                    moves = sum(bool(re.match(r"(@!?U?P\w+ )?(IMAD\.)?MOV\b", line)) for line in loop)
                    print(f"sm_{architecture} {name}: {len(loop)} instructions for {number_of_bytes} bytes of weights, "
                          f"{moves} of them copy registers")
                    self.assertLessEqual(len(loop), most)
                    if opcode == "HMMA":  # its operand needs four consecutive registers; see chain_products.h
                        inputs = 12 if "2Q4" in name else 0  # their sums
                        tiles = int(re.search(r"Li(\d)", name)[1])
                        self.assertEqual(sum("HMMA" in line for line in loop), 12 * tiles + inputs)
                        self.assertLessEqual(moves, 24)

    def test_four_warps_multiply_together(self):
        """A chain of a warp by warpgroups: twelve products that do not wait for each other, no register copied or spilled,
        and a third of the instructions of the tile of 128 x 64."""
        listings, report = self.made[WARPGROUPS]
        [listing] = listings.values()
        self.assertIsNone(re.search(r"\(C75\d\d\)|serialized", report), "ptxas has changed the order of products")
        self.assertIn("0 bytes spill stores, 0 bytes spill loads", report)
        loop = loop_of(listing, "HGMMA")
        def count(pattern):
            return sum(bool(re.search(pattern, line)) for line in loop)
        found = [count(pattern) for pattern in (r"\bHGMMA\.64x128x16\.F32\.BF16\b", r"WARPGROUP\.ARRIVE",
                                                r"WARPGROUP\.DEPBAR", r"(?<!U)\bMOV\b")]
        [tile] = [lines for name, lines in self.made["matmul/matmul_6_pipeline.cu", 90][0].items() if LARGE_TILE in name]
        before = executed(tile, "HMMA", 4)
        print(f"sm_90a matmul_warpgroup_kernel: products, fences, waits, copies of a chain {found}; {len(loop)} instructions,"
              f" and {before} of the tile of 128 x 64")
        self.assertEqual(found, [12, 4, 1, 0])
        self.assertLessEqual(len(loop), 340)
        self.assertGreaterEqual(before, 2.8 * len(loop))

    def test_a_sum_goes_from_block_to_block(self):
        """On Hopper: a store into the memory of another block of the cluster, between barriers of the cluster, and no
        load from there; atomic additions only in the way that loses the order."""
        listings, _ = self.made["matmul/matmul_8_split.cu", 90]
        found = {}
        for name in ("hand_over_kernel", "add_part_kernel"):
            [kernel] = [full for full in listings if name in full]
            text = "\n".join(without_comments(listings[kernel]))
            found[name] = [len(re.findall(rf"\b{opcode}\b", text)) for opcode in
                           (r"UCGABAR_WAIT", r"ST\.E(\.\w+)*", r"LD\.E(\.\w+)*", r"REDG?\.E\.ADD\.F32(\.\w+)*")]
            print(f"sm_90 {name}: barriers, stores, loads, atomic additions {found[name]}")
        barriers, *others = found["hand_over_kernel"]
        self.assertGreaterEqual(barriers, 2)
        self.assertEqual(others, [1, 0, 0])
        self.assertEqual(found["add_part_kernel"], [0, 0, 0, 4])

    def test_attentions_loops_rarely_wait(self):
        listings, _ = self.made["attention/attention_4_split.cu", 90]
        for name, most in ATTENTION:
            [kernel] = [full for full in listings if name in full]
            found = attention_loops(listings[kernel])
            print(f"sm_90 {kernel}: clocks by queries of a warp {found}")
            self.assertEqual(found.keys(), most.keys())
            for queries in most:
                for got, limit in zip(found[queries], most[queries]):
                    with self.subTest(kernel=kernel, queries=queries):
                        self.assertLessEqual(got, limit)

    def test_the_counting_of_loops(self):
        listing = [".L_x_1:", "/*0000*/ LDS R1, [R2] ;", ".L_x_2:", "LDGSTS.E [R3], desc[UR4][R2.64] ;",
                   "@P0 BRA `(.L_x_2) ;", "HMMA.16816.F32.BF16 R4, R8, R2, RZ ;", "@!P1 BRA `(.L_x_1) ;", "EXIT ;"]
        self.assertEqual(len(loop_of(listing, "HMMA")), 3)
        self.assertEqual(len(loop_of(listing, "LDGSTS")), 2)
        self.assertEqual([len(loop) for loop in inner_loops(listing)], [4])

    def test_the_counting_of_clocks(self):
        """A stall, a load that is waited for, and one that is not."""
        def line(text, stall, scoreboard=7, waits=0):
            code = stall << 41 | scoreboard << 46 | 7 << 49 | waits << 52
            return [f"/*0010*/ {text} ; /* 0x{0:016x} */", f"/* 0x{code:016x} */"]
        def loop(waits):
            return [*line("LDS R4, [R8]", 4, scoreboard=2), *line("FFMA R5, R4, R4, R5", 1, waits=waits),
                    *line("BRA `(.L_x_1)", 5)]
        self.assertEqual(clocks.clocks_of(loop(0)), 4 + 1 + 5)
        self.assertEqual(clocks.clocks_of(loop(1 << 2)), clocks.SHARED_LATENCY + 1 + 5)
        self.assertEqual(clocks.clocks_of(loop(1 << 3)), 4 + 1 + 5)

    def test_the_counting(self):
        """Uses, branches and barriers end a run of loads; uses of other registers do not."""
        loads = ["LDG.E.128 R4, desc[UR4][R2.64] ;", "LDG.E R8, desc[UR4][R2.64+0x10] ;"]
        self.assertEqual(most_loads_together(loads), 2)
        self.assertEqual(most_loads_together(loads, 128), 1)
        self.assertEqual(most_loads_together([loads[0], "FADD R20, R21, R22 ;", loads[1]]), 2)
        self.assertEqual(most_loads_together([loads[0], "FADD R20, R7, R22 ;", loads[1]]), 1)
        self.assertEqual(most_loads_together([loads[0], "@P0 BRA `(.L_x_1) ;", loads[1]]), 1)
        self.assertEqual(most_loads_together([loads[0], "LDG.E R8, desc[UR4][R6.64] ;"]), 1)
        self.assertEqual(most_loads_together([loads[0], "STS.128 [R1], R4 ;", loads[1], loads[1]]), 2)
        copy = "LDGSTS.E.BYPASS.128 [R9], desc[UR4][R2.64] ;"
        self.assertEqual(most_loads_together([copy, "LDS.64 R4, [R8] ;", copy], 128), 2)
        self.assertEqual(most_loads_together([copy, "DEPBAR.LE SB0, 0x0 ;", copy], 128), 1)
        shared = ["LDS.128 R4, [R8] ;", "LDS R9, [R8+0x10] ;", "FFMA R20, R7, R22, R20 ;", "LDS R9, [R8+0x20] ;"]
        self.assertEqual(most_loads_together([*loads, *shared], loads_from=SHARED_LOAD), 2)


def find_nvdisasm(nvcc, folder):
    found = shutil.which("nvdisasm") or shutil.which(pathlib.Path(nvcc).resolve().with_name("nvdisasm"))
    if found:
        return found
    environment = folder / "nvdisasm"
    program = next(environment.glob("lib/python*/site-packages/nvidia/**/nvdisasm"), None)
    if program is None:
        venv.create(environment, with_pip=True, clear=True)
        subprocess.run([environment / "bin/pip", "install", "-q", "--retries", "1", NVDISASM], check=True,
                       capture_output=True)
        program = next(environment.glob("lib/python*/site-packages/nvidia/**/nvdisasm"))
    program.chmod(0o755)
    return program


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    test = ListingsTest
    test.folder = pathlib.Path(sys.argv.pop(1)).resolve()
    test.folder.mkdir(parents=True, exist_ok=True)
    test.nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if test.nvcc is None:
        print("NOT CHECKED: no nvcc")
        sys.exit(77)
    try:
        test.nvdisasm = find_nvdisasm(test.nvcc, test.folder)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        print(f"NOT CHECKED: no nvdisasm ({error})")
        sys.exit(77)
    unittest.main()


if __name__ == "__main__":
    main()

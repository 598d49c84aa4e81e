"""The tables of docs/kernels/, made from what cuda_bench.py measured on a GPU. tables.py puts them there."""
import statistics

from table_text import STALE, Results, Tables, markdown, number, prose

NOT_MEASURED = "NOT MEASURED: no results from a GPU are committed. With a GPU, `make bench-cuda` fills in this table.\n"
TABLES = Tables("cuda-", unmeasured=NOT_MEASURED)
LEFT_OUT = "NOT MEASURED: the run left this out.\n"
SHARE = "Microseconds, and in brackets the share of the bandwidth of a sweep that only reads; M rows."
NAMES = ("benchmark", "shape", "matrix", "context", "step", "from", "gemm", "M")


class Measured(Results):
    """cuda.json."""

    def of(self, *benchmarks, **wanted):
        """Entries of these benchmarks in the order of the run."""
        return [e for e in self.data["benchmarks"] if e["benchmark"] in benchmarks and "error" not in e
                and all(e.get(k) == v for k, v in wanted.items())]

    def failed(self, *benchmarks):
        return [e for e in self.data["benchmarks"] if e["benchmark"] in benchmarks and "error" in e]


def where(results):
    data, m = results.data, results.data["machine"]
    median = lambda name: statistics.median(e[name] for e in data["benchmarks"] if e.get(name)) / 1e9
    sweeps = (f" A sweep that only reads moves {median('bandwidth'):.0f} GB/s, a copy {median('copy_bandwidth'):.0f} GB/s."
              if data["benchmarks"] else "")
    return (f"{STALE if results.stale else ''}Measured at source {data['sources_sha256'][:8]}: {data['date']}, "
            f"{m['gpu']} ({m['multiprocessors']} multiprocessors, compute capability {m['compute_capability']}, "
            f"{m['memory_bytes'] / 1e9:.0f} GB), driver {m['driver']}, CUDA {m['cuda']}, "
            f"`{data['build']['nvcc_flags']}`.{sweeps}")


def table(*benchmarks):
    """A maker of (caption, entries, names of the columns at the left, what a cell says), for these benchmarks."""
    def register(make):
        def made(results):
            parts = [f"{prose(caption)}\n{grid(entries, names, cell)}"
                     for caption, entries, names, cell in make(results) if entries]
            parts += [prose(f"Failed: {', '.join(str(e[name]) for name in NAMES if name in e)}: {e['error']}")
                      for e in results.failed(*benchmarks)]
            return "\n".join([prose(where(results)), *(parts or [LEFT_OUT])])
        made.__name__ = make.__name__
        return TABLES(made)
    return register


def grid(entries, names, cell):
    """A row for each value of the names, a column for each M."""
    columns, rows = sorted({e["M"] for e in entries}), {}
    for e in entries:
        rows.setdefault(tuple(str(e.get(name, "")) for name in names), {})[e["M"]] = cell(e)
    return markdown([*("kernel" if name == "benchmark" else name for name in names), *(f"M = {m}" for m in columns)],
                    [[*key, *(cells.get(m, "") for m in columns)] for key, cells in rows.items()])


def micros(e):
    value = e["seconds"] * 1e6
    return f"{number(value, 0 if value >= 100 else 1)} ({number(e['of_bandwidth'])})"


def millis(e):
    return f"{number(e['seconds'] * 1e3)} ({number(e['of_bandwidth'])})"


def ratio(name):
    return lambda e: number(e.get(name))


ROW_KERNELS = ("rms_norm", "add_rms_norm", "silu_mul", "rope_store_kv")


@table(*ROW_KERNELS)
def norms(results):
    return [(SHARE, results.of(*ROW_KERNELS), ["shape", "benchmark", "width", "step"], micros)]


@table("matmul")
def products(results):
    ladder, engine = results.of("matmul", matrix="gate_up"), results.of("matmul", step="engine")
    large = [e for e in ladder if e["step"] not in ("1_naive", "2_warp", "3_vector") and e["M"] >= 64]
    split = [e for e in results.of("matmul", matrix="down_proj") if e["step"].startswith("8_")]
    every = ["shape", "matrix"]
    return [("The ladder on gate and up. " + SHARE, ladder, ["shape", "step"], micros),
            ("The same, Tflop/s.", large, ["shape", "step"], lambda e: number(e["flops_per_second"] / 1e12, 1)),
            ("The engine's product on every matrix. " + SHARE, engine, every, micros),
            ("Its time over cuBLAS': below 1 it is faster.", engine, every, ratio("over_cublas")),
            ("T(M)/T(1).", engine, every, ratio("over_plain")),
            ("T(M)/T(1) without tensor cores.", results.of("matmul", step="4_rows"), every, ratio("over_plain")),
            ("Step 8 in its three ways, four blocks to a sum, on down_proj. " + SHARE, split, ["shape", "step"], micros)]


@table("attention")
def attention(results):
    return [(SHARE, results.of("attention"), ["shape", "context", "step"], micros),
            ("T(M)/T(1) of the engine's.", results.of("attention", step="engine"), ["shape", "context"], ratio("over_plain"))]


@table("argmax", "choose", "judge")
def sampling(results):
    return [("argmax. " + SHARE, results.of("argmax"), ["step"], micros),
            ("A token from each of M rows, and the verdict on M - 1 drafts, with the copies to the device and back. " +
             SHARE, results.of("choose", "judge"), ["benchmark", "from"], micros)]


@table("forward")
def forward(results):
    passes, names = results.of("forward"), ["shape", "gemm", "context"]
    return [("A pass of M tokens after a context, and its argmax: milliseconds, and in brackets the share of the "
             "bandwidth of a sweep that only reads.", passes, names, millis),
            ("T(M)/T(1).", passes, names, ratio("over_plain")),
            ("With CUDA graphs over without: below 1 they pay.", passes, names, ratio("over_one_by_one"))]

"""The tables of docs/theory/: from the formulas alone, and from what theory.py measured (results.json)."""
import formulas
from table_text import TEXTS, Tables, machine as machine_text, number, numbers, prose, smoke

NAMES = {"llama": "the draft model"}
TABLES = table = Tables()
factor, bytes_c = formulas.walltime_factor, formulas.bytes_c


class Theory:
    def __init__(self, data):
        self.data, self.counts, self.K = data, data["counts"], data["counts"]["K"]
        self.alphas = {(e["draft"], e["T"], e["text"]): e for e in self.counts["alpha"]}
        self.times = {(e["draft"], e["T"], e["K"]): e for e in data["times"]["entries"]}

    def alpha(self, kind, temperature, text="all"):
        return self.alphas[kind, temperature, text]


def name_of(kind):
    return NAMES.get(kind, kind)


def plus_minus(e, digits=2, of_error=2):
    return f"{number(e['alpha'], digits)} ± {number(e['alpha_se'], of_error)}"


def whole_alpha(e):
    return e["whole_accepted"] / e["whole_tested"]


# --- from the formulas alone ---

@table
def operations(_):
    """Table 1 of the paper."""
    return "alpha|K|operations|speedup|target's bytes", [
        [f"{alpha}", str(K), number(formulas.operations_factor(alpha, K, 0)), number(factor(alpha, K, 0)),
         number(formulas.memory_access_factor(alpha, K))]
        for alpha, K in ((0.6, 2), (0.7, 3), (0.8, 2), (0.8, 5), (0.9, 2), (0.9, 10))]


@table
def pairs(_):
    rows = []
    giga = lambda n: f"{n / 1e9:.2f} GB" if n > 1e8 else f"{n / 1e6:.2f} MB"
    for draft, weights, target in (("draft (embedded)", "bf16", "target (embedded)"), ("1B", "bf16", "3B"), ("1B", "int8", "3B"),
                                   ("1B", "q4", "3B"), ("1B", "bf16", "8B"), ("1B", "q4", "8B"), ("1B", "bf16", "70B"),
                                   ("8B", "bf16", "70B"), ("8B", "q4", "70B")):
        rows.append([draft.replace("draft (embedded)", "embedded draft") + ("" if weights == "bf16" else f" in {weights}"),
                     target.replace("target (embedded)", "embedded target"),
                     giga(formulas.SHAPES[draft].weight_bytes_in(weights)), giga(formulas.SHAPES[target].weight_bytes),
                     number(bytes_c(draft, target, 0, weights), 3),
                     number(bytes_c(draft, target, 32768, weights), 3) if "embedded" not in draft else ""])
    return "draft|target|draft reads|target reads|c|c at 32,768 tokens", rows


@table
def real_pair(_):
    c, rows = bytes_c("1B", "3B"), []
    for alpha in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        best = formulas.best_K(alpha, c)
        rows.append([f"{alpha}", *(number(factor(alpha, K, c)) for K in (1, 2, 3, 5, 8)), str(best),
                     number(factor(alpha, best, c)), number(formulas.oracle_factor(alpha, c))])
    return "alpha|K = 1|K = 2|K = 3|K = 5|K = 8|best K|its factor|oracle", rows


def factors_by_K(c):
    return "alpha|K = 1|K = 2|K = 3|K = 4|K = 5|K = 6|best K", [
        [f"{alpha}", *(number(factor(alpha, K, c)) for K in range(1, 7)), str(formulas.best_K(alpha, c))]
        for alpha in (0.6, 0.7, 0.8, 0.9)]


@table
def real_pair_bf16(_):
    return factors_by_K(bytes_c("1B", "3B"))


@table
def real_pair_int8_draft(_):
    return factors_by_K(bytes_c("1B", "3B", 0, "int8"))


@table
def real_pair_q4_draft(_):
    return factors_by_K(bytes_c("1B", "3B", 0, "q4"))


@table
def real_pair_360m(_):
    return factors_by_K(bytes_c("SmolLM2-135M", "SmolLM2-360M"))


@table
def real_pair_1_7b(_):
    return factors_by_K(bytes_c("SmolLM2-135M", "SmolLM2-1.7B"))


@table
def wrong_v(_):
    """Find the error: K + 1 passes for one."""
    c = bytes_c("1B", "3B")
    return "alpha|K|factor at v = 1|with K + 1 instead of v", [
        [f"{alpha}", str(K), number(factor(alpha, K, c, 1)), number(factor(alpha, K, c, K + 1))]
        for alpha in (0.5, 0.7, 0.9) for K in (2, 5)]


# --- counts ---

@table
def sample(theory):
    counts, e = theory.counts, theory.alpha("llama", 1)
    errors = [e["alpha_se"] for e in counts["alpha"] if e["text"] == "all" and e["alpha_se"]]
    smoke = " These numbers are a smoke test and mean nothing." if counts["quick"] else ""
    return prose(f"{counts['prompts']} prompts, up to {counts['max_new_tokens']} new tokens, K = {theory.K}. "
                 f"The draft model at temperature 1: {e['runs']} runs, {e['tested']:,} tested drafts. "
                 f"Largest standard error of a total: {number(max(errors, default=0), 3)}.{smoke}")


@table
def alpha(theory):
    found = [(kind, temperature, theory.alphas.get((kind, temperature, "all")))
             for kind in ("random", "unigram", "bigram", "lookup", "llama", "self") for temperature in (0, 0.5, 1)]
    return "draft|temperature|alpha|by probability|acceptance_rate|rounds that drafted|tokens per round", [
        [name_of(kind), f"{temperature}", plus_minus(e, 2, 3), *numbers(e, "alpha_by_probability acceptance_rate"),
         number(e["rounds_that_drafted"] / e["rounds"]), number(e["emitted_per_round"])]
        for kind, temperature, e in found if e]


@table
def alpha_by_text(theory):
    columns = [(kind, temperature) for kind in ("llama", "bigram", "lookup") for temperature in (0, 1)]
    rows = []
    for text in TEXTS:
        entries = [theory.alphas.get((*column, text)) for column in columns]
        rows.append([text] + [plus_minus(e) if e and None not in (e["alpha"], e["alpha_se"]) else "" for e in entries])
    return "|".join(["text", *(f"{name_of(k)}, T = {t}" for k, t in columns)]), rows


@table
def independence(theory):
    """Whole rounds of the draft model: the share that accepts all K, and what follows from it."""
    K, rows = theory.K, []
    for temperature in (0, 1):
        for text in ["all", *TEXTS]:
            e = theory.alphas.get(("llama", temperature, text))
            if e and e["whole_rounds"] >= 40:
                a = whole_alpha(e)
                rows.append([text, f"{temperature}", str(e["whole_rounds"]), number(a), number(a**K),
                             number(e["accepted_at"][K - 1] / e["whole_rounds"]), number(formulas.emitted(a, K)),
                             *numbers(e, "whole_emitted_per_round emitted_per_round")])
    return f"text|T|whole rounds|alpha|alpha^{K}|all {K} accepted|formula|tokens per whole round|with stops", rows


@table
def positions(theory):
    rows = []
    for temperature in (0, 1):
        e = theory.alpha("llama", temperature)
        a, at = whole_alpha(e), range(len(e["accepted_at"]))
        for name, values in ((f"T = {temperature}, accepted_per_position", [n / e["whole_rounds"] for n in e["accepted_at"]]),
                             (f"alpha = {number(a, 3)}, its powers", [a ** (i + 1) for i in at]),
                             ("accepted of those tested there", [n / t for n, t in zip(e["accepted_at"], e["tested_at"])])):
            rows.append([name, *(number(value, 3) for value in values)])
    return "|".join(["", *(f"draft {i + 1}" for i in range(theory.K))]), rows


@table
def lenience(theory):
    found = {(e["draft"], e["T"], e["lenience"]): e for e in theory.counts["lenience"]}
    levels, rows = sorted({key[2] for key in found}, reverse=True), []
    for temperature in (1, 0):
        for kind in ("unigram", "bigram", "llama"):
            entries = [found.get((kind, temperature, level)) for level in levels]
            if all(entries):
                changed = ", ".join(f"{e['runs'] - e['texts_unchanged']}" for e in entries[1:]) if temperature == 0 else ""
                rows.append([name_of(kind), f"{temperature}", *(number(e["alpha"]) for e in entries),
                             *(number(e["emitted_per_round"]) for e in entries),
                             changed and f"{changed} of {entries[0]['runs']}"])
    return "|".join(["draft", "T", *(f"alpha, l = {x:g}" for x in levels), *(f"tokens per round, l = {x:g}" for x in levels),
                     "texts changed"]), rows


@table
def alpha_by_k(theory):
    """The same prompts with several K; those with K = 5 are among the experiments with lenience."""
    entries = [*theory.counts["spec_length"], *({**e, "K": theory.K} for e in theory.counts["lenience"]
                                                if e["draft"] == "llama" and e["lenience"] == 1)]
    rows = []
    for e in sorted(entries, key=lambda e: (e["T"], e["K"])):
        formula = formulas.emitted(whole_alpha(e), e["K"])
        rows.append([f"{e['T']}", str(e["K"]), plus_minus(e, 3, 3), number(e["acceptance_rate"], 3),
                     number(formula), number(e["whole_emitted_per_round"]), number(formula / e["whole_emitted_per_round"])])
    return "T|K|alpha|acceptance_rate|formula|tokens per whole round|formula / measured", rows


@table
def by_bytes(theory):
    """The measured alphas at the costs of other pairs, at v = 1."""
    rows = []
    for kind, temperature in (("llama", 0), ("llama", 1), ("bigram", 0), ("bigram", 1)):
        alpha = theory.alpha(kind, temperature)["alpha"]
        costs = [("1B for 3B", bytes_c("1B", "3B")), ("embedded pair", bytes_c("draft (embedded)", "target (embedded)")),
                 ("1B for 70B", bytes_c("1B", "70B"))]
        for name, c in costs if kind == "llama" else [("nothing", 0)]:
            best = formulas.best_K(alpha, c, most=16)
            rows.append([name_of(kind), f"{temperature}", number(alpha), name, number(c, 3), str(best),
                         number(factor(alpha, best, c)), number(factor(alpha, 5, c))])
    return "draft|T|alpha|costs of|c|best K up to 16|its factor|K = 5", rows


@table
def wrong_alpha(theory):
    """Find the error: acceptance_rate for alpha."""
    found = [(text, theory.alphas.get(("llama", 1, text))) for text in ("poems", "stories", "all")]
    return "text|alpha|formula with alpha|acceptance_rate|formula with that|measured tokens per round", [
        [text, *(number(value) for name in ("alpha", "acceptance_rate") for value in (e[name], formulas.emitted(e[name], theory.K))),
         number(e["emitted_per_round"])] for text, e in found if e and e["alpha"] is not None]


# --- times ---

def predicted(e):
    """The formula with the measured c and v. A lookup drafts in some rounds only, and the others are plain steps."""
    K = e["K"]
    drafts = min(1, e["drafted_per_round"] / K) if e["draft"] == "lookup" else 1
    if e["alpha"] is None:
        return None
    tokens = 1 + drafts * (formulas.emitted(e["alpha"], K) - 1)
    return tokens / (drafts * (K * e["c"] + e["v"]) + 1 - drafts)


@table
def machine(theory):
    t = theory.data["times"]
    return prose(f"{machine_text(t)} Prompts {', '.join(t['prompts'])}; {t['rounds']} sweeps.{smoke(t)}")


@table
def times(theory):
    return times_of(theory, ["llama", "bigram", "lookup"])


@table
def times_of_the_draft_model(theory):
    return times_of(theory, ["llama"])


def times_of(theory, kinds):
    found = sorted((setting for setting in theory.times if setting[0] in kinds), key=lambda s: (kinds.index(s[0]), *s[1:]))
    return "draft|T|K|alpha|c|v|tokens per round|formula|accounting|clock|sweeps", [
        [name_of(kind), f"{temperature}", str(K), *numbers(e, "alpha c v emitted_per_round"), number(predicted(e)),
         *numbers(e, "program_accounting clock"), f"{number(e['clock_least'])} to {number(e['clock_most'])}"]
        for kind, temperature, K in found for e in [theory.times[kind, temperature, K]]]


@table
def v_and_rows(theory):
    """What a row costs: v by K, all kinds together."""
    lengths = sorted({K for _, _, K in theory.times})
    rows = [[name_of(kind), f"{temperature}", *(number(theory.times[kind, temperature, K]["v"]) for K in lengths)]
            for kind in ("llama", "bigram", "lookup") for temperature in (0, 1)
            if all((kind, temperature, K) in theory.times for K in lengths)]
    return "|".join(["draft", "T", *(f"v, {K + 1} rows" for K in lengths)]), rows

"""What `make gpu-check` found on a GPU. tables.py puts it into docs/kernels/."""
from table_text import STALE, Tables, markdown, number, prose

TABLES = Tables("gpu-", unmeasured="NOT RUN: no results from a GPU are committed. With a GPU, `make gpu-check` runs this check.\n")


def where(results):
    data, m = results.data, results.data["machine"]
    return (f"{STALE if results.stale else ''}Checked at source {data['sources_sha256'][:8]}: {data['date']}, "
            f"{m.get('gpu', 'no GPU')} (compute capability {m.get('compute_capability', 'unknown')}), "
            f"driver {m.get('driver', 'unknown')}, {m['cpu']}, built for {data['built_for']}.")


def others(step):
    return ", ".join(f"{job['job']} ({job['verdict']})" for job in step["jobs"] if job["verdict"] != "PASS")


@TABLES
def checked(results):
    steps = [[step["step"], step["verdict"], number(step["seconds"], 0),
              f"{sum(job['verdict'] == 'PASS' for job in step['jobs'])} of {len(step['jobs'])}", others(step)]
             for step in results.data["steps"]]
    parts = [prose(where(results)), markdown(["step", "verdict", "seconds", "passed", "not passed"], steps)]
    if tokens := results.data.get("tokens_per_second"):
        rows = [[setting, number(s["tokens_per_second"], 1), number(s.get("alpha")), number(s.get("c")), number(s.get("v"))]
                for setting, s in tokens.items()]
        parts += [prose("Decoding in the shapes of Llama 3.2 3B, drafted by the 1B:"),
                  markdown(["setting", "tokens per second", "alpha", "c", "v"], rows)]
    return "\n".join(parts)

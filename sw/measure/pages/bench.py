"""`docs/benchmarks.md` from measured rows: our figures with the peers' beside them.

The peers and where their figures come from are in docs/data/peers.json. The page says of every
column whether it was measured, quoted, estimated or computed.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spec.config import PRESETS
from sw.measure.bench import is_predicted, problems
from sw.measure.bench_store import Row, read_rows
from sw.measure.bench_suites import SUITES
from sw.measure.pages.markdown import document, heading, prose, table
from sw.models.wide.table import WIDE
from sw.runtime.report import ReportError
from sw.runtime.tables import FittedTable, left, right

DOCS = Path(__file__).resolve().parents[3] / "docs"
PEERS = DOCS / "data" / "peers.json"
Peers = Mapping[str, Any]

_TITLES = {
    "micro": "Kernels",
    "nets": "Networks",
    "transformers": "Transformers",
    "wide": "Networks of more families",
}
_WHOLE = """
Whole networks, from tokens to the last hidden state or the logits: the NPU computes embedding,
softmax, norms and GELU too, and nothing runs elsewhere. Random weights but for MiniLM. Decoding is
one token behind 16 others, whose keys and values come in as tensors. The programs of `systola
generate` are others: [which GPT-2 program](transformers.md#which-gpt-2-program).
"""
_WIDE = """
Small networks of families that the suites above lack, quantized as a user's own model is (policy
`auto`). Weights are random, batch norms have the statistics of photographs. *Predicted* cycles are
the compiler's, without a run. *Share* is the [layer bound](bound.md) divided by the cycles, the
measured ones where there are any.
"""
FEW = 0.7
"""Shares below it are explained."""

_LIMITS = """
Networks below 70%, and the part of the run in which each engine works. The last column is the share
that the network would have if its busiest engine worked in every cycle. No order of the same
instructions reaches a larger one. Fewer instructions would.
"""
_INTRO = """
Cycles are counted by the RTL under Verilator, from the start write to the completion interrupt.
Inputs, weights and program begin in DRAM, and results end there; every operator counts. Networks
run at batch 1. The memory answers after 100 cycles and moves one bus word a cycle and direction.
*Utilization* is MACs / (rows × columns × cycles). Taps on padding count as MACs, channels that only
fill up a block do not.

Every figure of ours in these tables was taken in a run that was `bit_exact` (RTL = golden model,
all elements of the result) and `reference_exact` (golden model = TOSA reference model on the
compiler's graph). The peers' figures are **not** measurements of ours;
[below](#the-peers) is where each comes from. A factor behind a peer's figure is its cycles divided
by ours.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the rows in `files`; `ReportError` names a file that it cannot use."""
    return page([row for path in files for row in read_rows(path)], read_peers(PEERS))


def read_peers(path: Path) -> Peers:
    """Sources (id, name, kind, provenance) and figures (entry -> source -> cycles)."""
    peers: Peers = json.loads(path.read_text())
    return peers


def page(rows: Sequence[Row], peers: Peers) -> str:
    """The whole page; `ReportError` for a row whose figure does not count."""
    for row in rows:
        wrong = problems(row)
        if wrong:
            raise ReportError(f"{row['name']} on {row.get('config')}: {'; '.join(wrong)}")
    blocks = [heading(1, "Benchmarks"), prose(_INTRO)]
    for suite, chosen in SUITES.items():
        names = [entry.name for entry in chosen]
        for config in dict.fromkeys(str(r["config"]) for r in rows):
            mine = [r for n in names for r in rows if (r["name"], r["config"]) == (n, config)]
            if mine and suite == "wide":
                blocks += _wide_section(config, mine)
            elif mine:
                blocks += _section(_TITLES[suite], config, mine, peers)
    blocks += [*_peers_section(rows, peers), *_runs_section(rows)]
    return document("systola pages benchmarks", "docs/data/", *blocks)


def _section(title: str, config: str, rows: Sequence[Row], peers: Peers) -> Iterator[str]:
    npu = PRESETS.get(config)
    # Peers' figures are for 256 MACs a cycle: beside any other array they would say nothing.
    comparable = npu is not None and npu.pes == 256
    shown = [
        s
        for s in peers["sources"]
        if comparable and any(s["id"] in peers["figures"].get(r["name"], {}) for r in rows)
    ]
    yield _heading(title, config)
    if any("elsewhere" in row for row in rows):
        yield prose(_WHOLE)
    yield "Cycles:"
    cells = []
    bounded = any("layer_bound" in row for row in rows)
    for row in rows:
        figures = peers["figures"].get(row["name"], {})
        theirs = [_peer(figures.get(source["id"]), row["cycles"]) for source in shown]
        ours = [f"**{row['cycles']:,}**", f"{row['utilization']:.1%}"]
        ours += _against_bound(row) if bounded else []
        cells.append([row["name"], _mega(row["macs"]), *ours, *theirs])
    head = ["", "MMAC", "**Systola, measured**", "utilization"]
    head += _BOUND_COLUMNS if bounded else []
    yield table([*head, *(f"{s['name']}, {s['kind']}" for s in shown)], cells, "lr")
    yield "The same runs:"
    yield table(*_details(rows), "lr")


_BOUND_COLUMNS = ["predicted", "layer bound", "share"]


def _against_bound(row: Row) -> list[str]:
    """Predicted cycles, bound and share; empty where they were not taken."""
    figures = [row.get(key) for key in ("predicted_cycles", "layer_bound")]
    texts = ["" if figure is None else f"{figure:,.0f}" for figure in figures]
    share = row.get("share")
    return [*texts, "" if share is None else f"{share:.1%}"]


def _heading(title: str, config: str) -> str:
    npu = PRESETS.get(config)
    return heading(2, f"{title}: `{config}`" + (f" ({npu.rows}×{npu.cols})" if npu else ""))


def _wide_section(config: str, rows: Sequence[Row]) -> Iterator[str]:
    """The wide suite: no peers, but families, predictions and the mean of the shares."""
    yield _heading(_TITLES["wide"], config)
    yield prose(_WIDE)
    shares = [row["share"] for row in rows]
    mean = math.prod(shares) ** (1 / len(shares))
    yield prose(
        f"Geometric mean of the shares of {len(shares)} networks: **{mean:.1%}**. {_errors(rows)}"
    )
    yield "Cycles:"
    cells = []
    clocks = {row.get("clock_mhz") for row in rows}
    clock = clocks.pop() if len(clocks) == 1 else None
    for row in rows:
        policy = str(row.get("policy", "")).partition(":")[0]
        known = (WIDE[row["name"]].family, policy, _mega(row["macs"]))
        cycles = "" if is_predicted(row) else f"**{row['cycles']:,}**"
        used = "" if is_predicted(row) else f"{row['utilization']:.1%}"
        time = [f"{row['ms']:,.2f}"] if clock else []
        cells.append([row["name"], *known, cycles, used, *_against_bound(row), *time])
    head = ["", "family", "policy", "MMAC", "**Systola, measured**", "utilization"]
    head += [*_BOUND_COLUMNS, *([f"ms at {clock:g} MHz"] if clock else [])]
    yield table(head, cells, "lllr")
    ran = [row for row in rows if not is_predicted(row)]
    yield from _limits([row for row in ran if row["share"] < FEW])
    if ran:
        yield "The same runs:"
        yield table(*_details(ran), "lr")


def _limits(rows: Sequence[Row]) -> Iterator[str]:
    """What the engines of runs of small shares did, and the share that the busiest one leaves."""
    if not rows:
        return
    yield prose(_LIMITS)
    engines = [name for name in rows[0]["counters"] if name != "fetch"]
    cells = []
    for row in rows:
        busy = {name: row["counters"][name]["busy"] for name in engines}
        waits = row["counters"]["vector"]["bank"] + row["counters"]["vector"]["pipeline"]
        used = [f"{cycles / row['cycles']:.0%}" for cycles in (*busy.values(), waits)]
        most = row["layer_bound"] / max(busy.values())
        cells.append([row["name"], f"{row['share']:.1%}", *used, f"{most:.0%}"])
    head = ["", "share", *engines, "vector waits for banks, and in its pipeline", "at most"]
    yield table(head, cells, "lr")


def _errors(rows: Sequence[Row]) -> str:
    """How far predictions were from measured cycles; empty where nothing ran."""
    errors = {
        str(row["name"]): row["predicted_cycles"] / row["cycles"] - 1
        for row in rows
        if not is_predicted(row)
    }
    if not errors:
        return ""
    worst = max(errors, key=lambda name: abs(errors[name]))
    mean = sum(map(abs, errors.values())) / len(errors)
    return (
        f"Predictions were {mean:.1%} off in the mean, and {abs(errors[worst]):.1%} at most "
        f"({worst})."
    )


def _details(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    head = ["", "MACs", "bytes read", "bytes written", "compared", "simulation", "speed"]
    nets = any(row.get("pcc") is not None for row in rows)
    if nets:
        whole = any("elsewhere" in row for row in rows)
        other = "the float network" if whole else "PyTorch's int8 graph"
        head += ["compiled in", f"PCC to {other}", "PCC between two inputs"]
        head += ["operators on the NPU", "elsewhere"] if whole else []
    cells = []
    for row in rows:
        line = [row["name"], f"{row['macs']:,}"]
        line += [f"{row[k]:,}" for k in ("dram_read_bytes", "dram_write_bytes", "elements")]
        line += [_seconds(row["wall_s"]), f"{row['sim_cycles_per_s'] / 1e3:,.0f} kHz"]
        if nets:
            line += [_seconds(row["compile_s"]), f"{row['pcc']:.5f}"]
            line += [f"{row['pcc_between_images']:.3f}"]
            line += [str(row[k]) for k in ("operators", "elsewhere") if k in row]
        cells.append(line)
    return head, cells


def _peers_section(rows: Sequence[Row], peers: Peers) -> Iterator[str]:
    names = {row["name"] for row in rows}
    used = {s for name, figures in peers["figures"].items() if name in names for s in figures}
    yield heading(2, "The peers")
    yield "All for 256 MACs a cycle."
    cells = [[s["name"], s["kind"], s["provenance"]] for s in peers["sources"] if s["id"] in used]
    yield table(["column", "kind", "where the figures come from"], cells)


def _runs_section(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "The runs")
    yield prose("`systola bench --suite micro`, `nets`, `transformers` or `wide` repeats them.")
    cells = []
    for row in rows:
        line = [row["name"], f"`{row['config']}` `{row['config_digest']}`"]
        line += [f"{row['latency']} cycles", f"`{row['commit']}`", f"`{row['sources']}`"]
        cells.append(line)
    yield table(["", "configuration", "latency", "commit", "sources"], cells)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def _peer(cycles: int | None, ours: int) -> str:
    return "" if cycles is None else f"{cycles:,} ({cycles / ours:.2f}×)"


def _mega(macs: int) -> str:
    return f"{macs / 1e6:,.0f}" if macs >= 1e8 else f"{macs / 1e6:.3g}"


def result_table(rows: Sequence[Row]) -> FittedTable:
    """Measured rows for the terminal."""
    columns = [
        left("entry", fold=20),
        right("MACs", 3),
        right("cycles"),
        right("predicted", 2),
        right("share"),
        right("utilization", 1),
        right("read", 4),
        right("written", 4),
        right("wall", 2),
        right("kHz", 5),
        left("verdict", fold=16),
    ]
    out = FittedTable(columns)
    for row in rows:
        wrong = problems(row)
        if row.get("error"):
            out.add_row(str(row["name"]), *[""] * 9, "NOT MEASURED")
            continue
        predicted, _, share = _against_bound(row)
        if is_predicted(row):
            cells = ["", predicted, share, *[""] * 5, "predicted"]
            out.add_row(str(row["name"]), f"{row['macs']:,}", *cells)
            continue
        out.add_row(
            str(row["name"]),
            *(f"{row[k]:,}" for k in ("macs", "cycles")),
            *(predicted, share, f"{row['utilization']:.1%}"),
            *(f"{row[k]:,}" for k in ("dram_read_bytes", "dram_write_bytes")),
            _seconds(row["wall_s"]),
            f"{row['sim_cycles_per_s'] / 1e3:,.0f}",
            "FAIL: " + "; ".join(wrong) if wrong else "exact",
        )
    return out

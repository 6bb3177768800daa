"""`docs/modules.md` from measured rows: what modules of users become on the NPU."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.bench import problems
from sw.measure.bench_store import Row, read_rows
from sw.measure.modules import MIN_PCC
from sw.measure.pages.markdown import document, fenced, heading, prose, table
from sw.runtime.report import ReportError
from sw.runtime.tables import FittedTable, left, right

_TITLES = {
    "vision.py": "Images",
    "sequences.py": "Sequences, attention, experts",
    "recurrent.py": "Recurrent networks",
    "generative.py": "Networks that make images",
    "inputs_and_outputs.py": "What goes in and comes out",
    "transformers_decoders.py": "Language models of `transformers`",
    "transformers_encoders.py": "Text encoders of `transformers`",
    "transformers_images_and_sound.py": "Images and sound with `transformers`",
    "partly_on_cpu.py": "Networks with operators that the NPU lacks",
}
_INTRO = """
Small networks as a user would bring them, none of them built in: {count} functions in
`examples/modules/`, each of which returns a module with example inputs. Each went through three
commands on configuration {configs}: `compile`, `run --device rtl --verify` and `profile`. {whole}
of them run on the NPU as a whole. The other {partly} have operators that the NPU lacks: with
`run --fallback` the CPU runs these, and the table names them with the reason.

Weights are random, and the example inputs set the ranges of the values ([policies and
calibration](models.md#policies)). Batch norms of untrained networks take the statistics of data
first.
"""
_COLUMNS = f"""
- *Policy*: how values became integers.
- *On the NPU*, *on the CPU*: operators of the captured graph that depend on its inputs.
- *Cycles*: counted by the RTL, memory to memory, as on the page of [benchmarks](benchmarks.md).
- *Array*: MACs / (rows × columns × cycles), and what bounds most of the cycles: an engine, or
  `latency` where engines wait for memory and for each other. Such small networks leave most of the
  array idle. Empty for modules that are partly on the CPU.
- *PCC*: the correlation of the NPU's result with PyTorch's float result, the lowest of all results;
  at least {MIN_PCC} is asked for. In brackets, the control: the PCC with PyTorch's result for
  shuffled inputs. Where the control is near the PCC, the PCC proves nothing. *Indices*: equal
  elements of results that are integers.
- *Bit-exact*: every element of every result on the RTL is the golden model's, and golden's is that
  of the TOSA reference model. For programs beside a CPU, the compiler's interpreter of TOSA graphs
  takes the place of the reference model.
"""
_COMMANDS = """
systola run examples/modules/vision.py:unet --device rtl --verify -c small
systola run examples/modules/partly_on_cpu.py:running_maximum --fallback -c small
systola bench --suite modules -c small --json docs/data/modules.json
systola pages modules
"""


def render(files: Sequence[Path]) -> str:
    """The page of the rows in `files`; `ReportError` names a file that it cannot use."""
    return page([row for path in files for row in read_rows(path)])


def page(rows: Sequence[Row]) -> str:
    """The whole page; `ReportError` for a row whose figure does not count."""
    for row in rows:
        wrong = problems(row)
        if wrong:
            raise ReportError(f"{row['name']} on {row.get('config')}: {'; '.join(wrong)}")
    partly = sum(bool(row["cpu"]) for row in rows)
    configs = ", ".join(sorted({f"`{row['config']}`" for row in rows}))
    whole = len(rows) - partly
    intro = _INTRO.format(count=len(rows), whole=whole, partly=partly, configs=configs)
    by_file: dict[str, list[Row]] = {name: [] for name in _TITLES}
    for row in rows:
        by_file.setdefault(_file(row), []).append(row)
    sections = [block for name, mine in by_file.items() if mine for block in _section(name, mine)]
    return document(
        "systola pages modules",
        "docs/data/",
        heading(1, "Modules as users bring them"),
        prose(intro),
        _COLUMNS.strip(),
        *sections,
        *_runs(rows),
    )


def _file(row: Row) -> str:
    return str(row["target"]).rpartition("/")[2].partition(":")[0]


def _section(file: str, rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, _TITLES.get(file, file))
    yield f"`examples/modules/{file}`:"
    head = ["module", "what is special", "policy", "on the NPU", "on the CPU, and why"]
    head += ["cycles", "array", "PCC", "bit-exact"]
    yield table(head, [_cells(row) for row in rows], "lllrlrlll")


def _cells(row: Row) -> list[str]:
    return [
        f"`{row['name']}`",
        str(row["special"]),
        str(row["policy"]),
        f"{row['operators']:,}",
        _on_cpu(row["cpu"]) or "none",
        f"{row['cycles']:,}",
        _array(row),
        _agreement(row),
        f"yes, {row['elements']:,} values",
    ]


def _on_cpu(nodes: Sequence[Mapping[str, Any]]) -> str:
    """For each reason, the operators that it keeps on the CPU and how often."""
    found: dict[str, Counter[str]] = {}
    for node in nodes:
        name = str(node["operator"]).removeprefix("aten.").removesuffix(".default")
        found.setdefault(node["reason"], Counter())[f"`{name}`"] += 1
    parts = []
    for reason, names in found.items():
        shown = [name if count == 1 else f"{name} ({count}×)" for name, count in names.items()]
        parts.append(f"{', '.join(shown)}: {reason}")
    return "; ".join(parts)


def _array(row: Row) -> str:
    used = row.get("utilization")
    return "" if used is None else f"{used:.1%}, {row['bound_by']}"


def _agreement(row: Row) -> str:
    parts = []
    if row["pcc"] is not None:
        parts.append(f"{row['pcc']:.5f} ({row['pcc_other']:.2f})")
    if row["same_integers"] is not None:
        parts.append(f"indices {row['same_integers']:.0%}")
    return ", ".join(parts)


def _runs(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "The run")
    configs = {f"`{row['config']}` ({row['config_digest']})" for row in rows}
    latencies = {str(row["latency"]) for row in rows}
    facts = (", ".join(sorted(found)) for found in (configs, latencies))
    yield prose(
        "Measured on configuration {}, with a memory that answers after {} cycles.".format(*facts)
        + f" {_commits(rows)}"
    )
    yield prose(
        "The suite goes on where it was interrupted, and measures a module again when its file or "
        "the sources have changed:"
    )
    yield fenced(_COMMANDS.strip())


def _commits(rows: Sequence[Row]) -> str:
    """For each commit the modules that were measured at it, the one with the most first."""
    measured: dict[str, list[str]] = {}
    for row in rows:
        commit = f"`{row['commit']}` (sources `{row['sources']}`)"
        measured.setdefault(commit, []).append(f"`{row['name']}`")
    (most, _), *others = sorted(measured.items(), key=lambda item: -len(item[1]))
    but = " but those that follow" if others else ""
    sentences = [f"All modules{but} were measured at commit {most}."]
    sentences += [f"At commit {commit}: {', '.join(names)}." for commit, names in others]
    return " ".join(sentences)


def result_table(rows: Sequence[Row]) -> FittedTable:
    """Measured rows for the terminal."""
    columns = [
        left("module", fold=20),
        left("policy"),
        right("on NPU", 3),
        right("on CPU", 2),
        right("cycles"),
        left("array", 1),
        left("PCC", 1),
        left("verdict", fold=20),
    ]
    out = FittedTable(columns)
    for row in rows:
        wrong = problems(row)
        if row.get("error"):
            out.add_row(str(row["name"]), *[""] * 6, "NOT MEASURED: " + row["error"])
            continue
        counts = [f"{n:,}" for n in (row["operators"], len(row["cpu"]), row["cycles"])]
        out.add_row(
            str(row["name"]),
            str(row["policy"]),
            *counts,
            _array(row),
            _agreement(row),
            "FAIL: " + "; ".join(wrong) if wrong else "exact",
        )
    return out

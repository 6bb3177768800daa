"""The report of the backend as text that fits the width of a terminal."""

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

_LEAST = 40
"""Columns that a report has at least, however narrow the terminal is."""

_NOTHING = (
    "no graph has reached the backend. A model is compiled at its first call, if Dynamo traces it. "
    "Dynamo traces no class of torch.nn that was compiled in place (`module.compile()`): "
    "use `torch.compile(module)`"
)

_TIED = "\N{NO-BREAK SPACE}"
"""A space at which no line is folded; printed as a plain one."""

_DROPPED = ("line", "target")
"""Columns of the node table that go first where the width is not enough."""


def report_lines(data: Mapping[str, Any], width: int | None = None) -> list[str]:
    """The lines of a report, none wider than `width`.

    width: default $COLUMNS, else the terminal's width, else 80.
    """
    columns = max(width or shutil.get_terminal_size((80, 24)).columns, _LEAST)
    lines = _head(data)
    for graph in data["graphs"]:
        lines += ["", *_graph(graph, columns)]
    lines += _untraced(data)
    return [piece for line in lines for piece in _fold(line, columns)]


def _head(data: Mapping[str, Any]) -> list[str]:
    t = data["totals"]
    if not data["graphs"]:
        because = data["off"] or ("nothing was compiled" if data["dynamo"] else _NOTHING)
        return [f"backend systola: {because}"]
    cycles = "" if t["cycles"] is None else f"{t['cycles']:,} cycles; "
    return [
        f"backend systola, config {data['config']}, device {data['device']}: "
        f"{t['npu_nodes']} nodes on the NPU, {t['cpu_nodes']} on the CPU",
        f"{t['calls']} calls of {t['graphs']} graphs in {t['variants']} variants, "
        f"{t['eager_calls']} of them eager; {t['runs']} runs of {t['parts']} programs",
        f"bytes to the NPU {t['bytes_in']:,}, back {t['bytes_out']:,}; {cycles}"
        f"instructions: {_counts(t['instructions'])}",
        *_time(t),
    ]


def _time(totals: Mapping[str, Any]) -> list[str]:
    """Cycles without a clock of the device's own: predicted, against the bound, at a clock."""
    if not totals["predicted_cycles"]:
        return []
    parts = [f"{totals['predicted_cycles']:,} cycles predicted"]
    if totals["share"] is not None:
        parts.append(f"layer bound {totals['layer_bound']:,.0f}, share {totals['share']:.1%}")
    if totals["ms"] is not None:
        parts.append(f"{totals['ms']:,.3f} ms a call at {totals['clock_mhz']:g} MHz")
    return ["; ".join(parts)]


def _graph(graph: Mapping[str, Any], width: int) -> list[str]:
    lines = [
        f"graph {graph['graph']}: {graph['calls']} calls  {short_place(graph['place'])}".rstrip()
    ]
    lines += [f"  eager, {count} calls: {why}" for why, count in graph["eager"].items()]
    lines += [f"  note: {note}" for note in graph["notes"]]
    if graph["given_up"]:
        lines.append(f"  {graph['kept']} variants are kept, {graph['given_up']} were given up")
    for variant in graph["variants"]:
        lines += variant_lines(variant, width)
    return lines


def variant_lines(variant: Mapping[str, Any], width: int) -> list[str]:
    """A variant: its policy, its parts, and where each operator ran."""
    shapes = ", ".join(str(s) for s in variant["shapes"])
    lines = [
        f"  inputs {shapes}: {variant['npu_nodes']} nodes on the NPU, "
        f"{variant['cpu_nodes']} on the CPU",
        f"    policy {variant['policy']}: {variant['policy_reason']}",
    ]
    for part in variant["parts"]:
        lines += _part(part)
    return lines + node_table(variant["nodes"], width)


def _part(part: Mapping[str, Any]) -> list[str]:
    lines = [
        f"    {part['part']}: {part['nodes']} nodes, {part['runs']} runs, "
        f"{part['bytes_in']:,} bytes in, {part['bytes_out']:,} out, "
        f"{part['constant_bytes']:,} of constants" + (", from the cache" if part["cached"] else "")
    ]
    if part["saturated"]:
        lines.append(
            f"      {part['saturated']} inputs saturated: {part['saturated_share']:.2%} of all "
            "input values were outside the calibrated range"
        )
    return lines + [f"      on the CPU, {n} calls: {why}" for why, n in part["on_cpu"].items()]


def node_table(nodes: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """A line for each operator: where it ran, its name, operator, module, line of the source.

    Columns are dropped where the width is not enough; a reason that does not fit goes below.
    """
    rows = [
        {
            "where": n["where"],
            "name": n["name"],
            "target": str(n["target"]).removesuffix(".default"),
            "module": n["module"],
            "line": short_place(n["source"]).partition(": ")[0],
        }
        for n in nodes
    ]
    names = ["where", "name", "target", "module", "line"]
    names = [k for k in names if any(row[k] for row in rows)]
    for dropped in _DROPPED:
        if dropped in names and 2 + sum(2 + _longest(rows, k) for k in names) > width:
            names.remove(dropped)
    indent = " " * (6 + _longest(rows, "where"))
    lines = []
    for row, node in zip(rows, nodes, strict=True):
        text = "    " + "  ".join(row[k].ljust(_longest(rows, k)) for k in names)
        text = text.rstrip()
        reason = node["reason"]
        if len(text) + 2 + len(reason) <= width:
            lines.append(f"{text}  {reason}".rstrip())
            continue
        lines += [text, *_fold(indent + reason, width)]
    return lines


def _longest(rows: Sequence[Mapping[str, str]], key: str) -> int:
    return max((len(row[key]) for row in rows), default=0)


def _untraced(data: Mapping[str, Any]) -> list[str]:
    if not data["dynamo"]:
        return []
    lines = ["", "not traced by Dynamo, so in eager mode:"]
    for row in data["dynamo"]:
        place = short_place(row["where"])
        lines += [f"  {row['kind']}  {place}".rstrip(), f"    {row['reason']}"]
    return lines


def short_place(place: str) -> str:
    """`file:line: code` with the last two parts of the path only."""
    found = re.match(r"(.*?):(\d+)(.*)", place, re.DOTALL)
    if found is None:
        return place
    path = PurePath(found[1])
    return f"{'/'.join(path.parts[-2:])}:{found[2]}{found[3]}"


def _fold(line: str, width: int) -> list[str]:
    """One line as several of at most `width` columns, those after the first indented further."""
    if len(line) <= width:
        return [line.replace(_TIED, " ")]
    indent = line[: len(line) - len(line.lstrip())]
    lines = textwrap.wrap(line, width, subsequent_indent=indent + "  ", break_on_hyphens=False)
    return [piece.replace(_TIED, " ") for piece in lines]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}{_TIED}{count:,}" for name, count in counts.items()) or "none"

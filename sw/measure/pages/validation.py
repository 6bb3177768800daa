"""`docs/validation.md` from the records that `systola validate --json` wrote."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sw.measure.pages.markdown import bullets, document, heading, prose, table
from sw.measure.validate import MAX_PCC_BETWEEN, MIN_PCC, Row
from sw.runtime.report import ReportError, read_json

_INTRO = """
`systola validate NETWORK…` asks whether a network on the NPU (golden model, which the RTL equals
bit for bit) is still the network that PyTorch's PT2E quantized.
"""
_WHOLE = f"""
The network runs as a whole, on different samples. *PCC* is Pearson's correlation of all outputs of
all samples: of the NPU with PyTorch's int8 graph (at least {MIN_PCC}), and of both with the float
module. *Between samples* is the PCC of PyTorch's outputs with those of the next sample: what a
wrong result would score. The other PCCs say something only where this one is lower, at most
{MAX_PCC_BETWEEN}. *Top-1* counts the samples with the same class. *Classes* is the number of
different classes that PyTorch's int8 graph gives.
"""
_LEVELS = """
Only `digits` was trained: elsewhere top-1 counts close decisions between random scores, not right
answers.
"""
_MARGINS = """
The margin is by how much PyTorch's int8 graph preferred its own class, in steps of the int8 output.
Where classes are equal or a few steps apart, rounding decides.
"""
_OPERATORS = """
Each layer is fed PyTorch's own integers of one sample, so that every difference is its own. At most
0.1% of a layer's elements may differ, by at most 1 LSB. One element may always differ, and 5% may
after an average pool, because TOSA rounds halves up and PyTorch rounds them to even.
"""
_REFERENCE = """
The golden model's outputs against those of `tosa_reference_model` on the compiler's graph.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` if one cannot be read."""
    return page([row for path in files for row in read_rows(path)])


def read_rows(path: Path) -> list[Row]:
    """The records of a file."""
    found: list[Row] = read_json(path)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ReportError(f"{path}: must be a list of records")
    return found


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    try:
        sections = (_networks(rows), _margins(rows), _operators(rows), _reference(rows))
        blocks = [block for section in (*sections, _origin(rows)) for block in section]
    except KeyError as error:
        raise ReportError(f"a record has no {error}: it is none of systola validate") from None
    title = heading(1, "Validation against PyTorch")
    return document("systola pages validation", "docs/data/", title, prose(_INTRO), *blocks)


def _networks(rows: Sequence[Row]) -> Iterator[str]:
    head = (
        *("network", "samples", "PCC NPU, int8 PyTorch", "NPU, float", "int8 PyTorch, float"),
        *("between samples", "top-1 as int8 PyTorch", "as float", "classes"),
    )
    yield heading(2, "The whole network")
    yield prose(_WHOLE)
    yield table(head, map(_network, rows), "lr")
    yield prose(_LEVELS)


def _network(row: Row) -> list[Any]:
    count = row["samples"]
    between = row["pcc_between"]
    cells = [f"`{row['name']}`", count]
    cells += [f"{row[key]:.5f}" for key in ("pcc_pt2e", "pcc_fp32", "pcc_pt2e_fp32")]
    cells.append("" if between is None else f"{between:.3f}")
    if "disagreements" not in row:
        return [*cells, "", "", ""]
    same = count - len(row["disagreements"])
    return [*cells, f"{same}/{count}", f"{row['top1_fp32']}/{count}", row["classes"]]


def _margins(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "Samples with another class")
    yield prose(_MARGINS)
    found = [(row["name"], d) for row in rows for d in row.get("disagreements", ())]
    head = ("network", "sample", "class of int8 PyTorch", "of the NPU", "margin, steps")
    cells = [(f"`{n}`", d["sample"], d["pt2e"], d["npu"], d["margin_steps"]) for n, d in found]
    yield table(head, cells, "lr") if found else "None."


def _operators(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "Every operator")
    yield prose(_OPERATORS)
    head = ("network", "kind", "layers", "elements", "differ", "largest difference, LSB")
    yield table(head, [cells for row in rows for cells in _kinds(row)], "llr")
    yield "The layer of each network with the largest share:"
    worst = [(row["name"], row["operator_worst"]) for row in rows]
    yield bullets(
        f"`{name}`: {w['layer']} ({' + '.join(w['ops'])}), {w['differing']:,} of "
        f"{w['elements']:,} elements, {w['max_lsb']} LSB"
        for name, w in worst
        if w["differing"]
    )


def _kinds(row: Row) -> Iterator[Sequence[object]]:
    for kind, sums in row["kinds"].items():
        share = f"{sums['differing']:,} ({sums['differing'] / sums['elements']:.4%})"
        elements = f"{sums['elements']:,}"
        yield (f"`{row['name']}`", kind, sums["layers"], elements, share, sums["max_lsb"])


def _reference(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "The TOSA reference model")
    yield prose(_REFERENCE)
    cells = [(f"`{r['name']}`", r["reference_exact"], r["reference_elements"]) for r in rows]
    yield table(("network", "reference_exact", "elements compared"), cells, "llr")


def _origin(rows: Sequence[Row]) -> Iterator[str]:
    configs = ", ".join(dict.fromkeys(f"{r['config']} {r['config_digest']}" for r in rows))
    packages = ", ".join(f"{k} {v}" for k, v in rows[0]["packages"].items() if v)
    seeds = ", ".join(dict.fromkeys(str(r["seed"]) for r in rows))
    yield heading(2, "Where the figures come from")
    yield prose(
        f"Configuration {configs}; seed {seeds}; {packages}. PyTorch's float sums, and scales with "
        "them, differ in the last bit between processors."
    )
    yield bullets(f"`{row['name']}`: {row['data']}" for row in rows)

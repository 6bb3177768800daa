"""Proofs that the systolic array's two forms are equal: `python -m sw.synth.equivalence`.

Processing elements are what is generated, loops what is simulated. Both are read by Yosys. Every
register of one is paired with the register of the other that holds the same bit, and each pair is
proven by induction: equal now and equal inputs make it equal in the next cycle. Nothing is assumed
of the inputs, and no bound is set on the number of cycles.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from amaranth.back.verilog import convert

from hw_gen.blocks.array_element import ArrayShape, sum_bits
from hw_gen.blocks.array_elements import ArrayElements
from hw_gen.blocks.operands import OPERAND
from hw_gen.generate import elements_verilog
from hw_gen.platform import RtlPlatform
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
    )
    for across in (False, True)
)
"""What is proven: square and not, with weights from above only, or from the left as well, one
vector or several in a cycle."""

Pair = tuple[str, str, int]
"""A register of the loops, the one of the elements, and its width."""


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
        "opt_merge w:sum_* %ci:+[Q]",
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
    return sum(bits for *_, bits in pairs)


def elements_module(shape: ArrayShape, tag_bits: int) -> str:
    """Verilog of the elements as module `elements`, whose ports are those of the loops."""
    array = ArrayElements(shape, tag_bits=tag_bits)
    top = _ELEMENTS.format(
        act=OPERAND.width * shape.rows - 1,
        wgt=OPERAND.width * max(shape.rows, shape.cols) * shape.weight_rows - 1,
        tag=tag_bits - 1,
        rows=shape.rows,
        sums=32 * shape.cols - 1,
    )
    text = convert(array, name="array_elements", platform=RtlPlatform(), emit_src=False)
    return top + text + elements_verilog(shape)


def registers(shape: ArrayShape, tag_bits: int) -> Iterator[Pair]:
    """The registers of both forms."""
    rows, cols, width = shape.rows, shape.cols, OPERAND.width
    for r in range(rows):
        for c in range(cols):
            yield from _element(shape, r, c)
        for i in range(r):
            yield f"act_skew[{i * rows + r}]", f"act_{r}_{i}", width
    lanes, many = max(rows, cols), shape.weight_rows
    for vector in range(many):
        name = f"wgt{vector or ''}"
        for n in range(shape.lanes(vector)):
            for i in range(n + vector):
                place = (vector * (lanes + many - 1) + i) * lanes + n
                yield f"wgt_skew[{place}]", f"{name}_{n}_{i}", width
    bits = sum_bits(rows)
    for c in range(cols - 1):
        for i in range(cols - 1 - c):
            yield f"sum_skew[{i * cols + c}]", f"sum_{c}_{i}", bits
    for i in range(rows - 1):
        yield f"swap_skew[{i}][0]", f"swap_{i + 1}_0", 1
    for i in range(rows + min(many, cols) - 2 if shape.across else 0):
        yield f"skew_across[{i}]", f"across_{i + 1}_0", 1
    for i in range(cols + many - 2):
        yield f"skew_down[{i}]", f"down_{i + 1}_0", 1
    for i in range(rows + cols - 3):
        yield f"tag_q[{i}]", f"tag_{i}", tag_bits


def _element(shape: ArrayShape, row: int, col: int) -> Iterator[Pair]:
    """Registers of one element; flags of a row are one register in the loops."""
    at, element = row * shape.cols + col, f"element_{row}_{col}"
    kind, width = shape.kind(row, col), OPERAND.width
    for name in ("current", "shadow"):
        yield f"{name}[{at}]", f"{element}.{name}", width
    yield f"sum_q[{at}]", f"{element}.sum_o", kind.sums[1]
    yield f"loaded[{row}][{col}]", f"{element}.loaded", 1
    if kind.right:
        yield f"act_q[{at}]", f"{element}.act_o", width
        yield f"swap_q[{row}][{col}]", f"{element}.swap_o", 1
    if kind.passes:
        yield f"passing[{at}]", f"{element}.passing", width
        for i in range(shape.weight_rows - 2):
            place = (i * shape.rows + row) * shape.cols + col
            yield f"passing_late[{place}]", f"late_{row}_{col}_{i}", width
        if row + shape.weight_rows < shape.rows:
            yield from _passed(shape, row, col, "down")
        if kind.across and col + shape.weight_rows < shape.cols:
            yield from _passed(shape, row, col, "across")


def _passed(shape: ArrayShape, row: int, col: int, way: str) -> Iterator[Pair]:
    """Registers of the flag that goes on from an element that way."""
    yield f"{way}[{row}][{col}]", f"element_{row}_{col}.{way}_o", 1
    for i in range(shape.weight_rows - 2):
        yield f"{way}_late[{i * shape.rows + row}][{col}]", f"late_{way}_{row}_{col}_{i}", 1


def _renamed(pairs: list[Pair], side: int) -> Iterator[str]:
    """Give each bit of a register the name that it has on both sides."""
    for number, pair in enumerate(pairs):
        for bit in range(pair[2]):
            index = f"[{bit}]" if pair[2] > 1 else ""
            yield f"rename \\{'array.' if side else ''}{pair[side]}{index} r{number}_{bit}"


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

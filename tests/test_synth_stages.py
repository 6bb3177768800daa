"""One combinational path a pipeline stage: blocks are mapped, and what is too long is said."""

import re
from pathlib import Path

import pytest
from amaranth.back.verilog import convert

from hw_gen.blocks.accumulator import Accumulator
from hw_gen.blocks.counters import Counters
from hw_gen.blocks.dma_runs import tag_layout
from hw_gen.blocks.load_requests import LoadRequests
from hw_gen.blocks.sequencer import Sequencer
from hw_gen.platform import RtlPlatform
from spec import preset
from spec.isa import Opcode
from sw.synth.flow import Cells, analyse, generic_cells, map_netlist
from sw.synth.recipe import Effort
from sw.synth.stages import long_paths, through_paths

TINY = preset("tiny")
MOST_FO4 = 45
"""Of the blocks here, with our own cells and mapped quickly."""


@pytest.fixture(scope="module")
def cells() -> Cells:
    return generic_cells()


def timed(folder: Path, text: str, top: str, cells: Cells):
    """Paths of a design, longest first, and those from and to its pins."""
    source = folder / "design.v"
    source.write_text(text)
    netlist, _ = map_netlist([source], top, cells, Effort.QUICK, folder, lambda text: None)
    return analyse(netlist, cells.library)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(lambda: Accumulator(TINY), id="accumulator"),
        pytest.param(lambda: Counters(TINY), id="counters"),
        pytest.param(lambda: LoadRequests(TINY, tag_layout(1)), id="load_requests"),
        pytest.param(
            lambda: Sequencer(Opcode.LOAD, {"mem": "mem_base", "chip": "chip_base"}), id="sequencer"
        ),
    ],
)
def test_stages_of_blocks_are_short(block, cells, tmp_path) -> None:
    text = convert(block(), name="block", platform=RtlPlatform(), emit_src=False)
    paths, _ = timed(tmp_path, text, "block", cells)
    assert paths[0].gates > 5
    assert [*long_paths(paths, cells.library.fo4_ns, MOST_FO4)] == []


LONG = """
module design(input clk, input rst, input [47:0] x, input sel, output reg [47:0] y, output z);
  reg [47:0] a, b;
  always @(posedge clk) begin a <= x; b <= a; y <= a * b * a; end
  assign z = sel & x[0];
endmodule
"""


def test_a_long_stage_and_a_way_past_all_registers_are_named(cells, tmp_path) -> None:
    paths, ports = timed(tmp_path, LONG, "design", cells)
    (line, *_) = long_paths(paths, cells.library.fo4_ns, MOST_FO4)
    assert re.fullmatch(
        r"[ab]\[\d+\] → y\[\d+\]: \d+ FO4, \d+ gates, through top; put a register on the way, "
        r"a stage has at most 45 FO4",
        line,
    )
    (line,) = through_paths(ports)
    assert line.startswith("an input leads to an output without a register, in 0.0")
    assert [*through_paths({**ports, "input to output": float("-inf")})] == []

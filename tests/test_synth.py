"""Small designs through the whole synthesis: area, memories, timing, names, FPGA resources."""

import json
from collections import Counter
from pathlib import Path

import pytest

from sw.synth import area, memories
from sw.synth.area import TOP
from sw.synth.errors import SynthError
from sw.synth.flow import Cells, analyse, generic_cells, map_netlist
from sw.synth.fpga import ecp5
from sw.synth.fpga.block_ram import Memory, into_blocks
from sw.synth.fpga.block_ram import memories as memories_of
from sw.synth.fpga.wrapper import wrapper
from sw.synth.generic import FLIP_FLOP_PARASITIC, SETUP_TAU, TAU_PS
from sw.synth.netlist import MEMORY, SRAM, Netlist, load_netlist
from sw.synth.recipe import Effort
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys, warnings

ROOT = Path(__file__).resolve().parent.parent
SRAM_FILE = ROOT / "rtl" / "systola_sram.sv"
MULTIPLIER_FILE = ROOT / "rtl" / "systola_multiplier.sv"

DESIGN = """
module adder(input clk, input [7:0] a, input [7:0] b, output reg [7:0] total);
  (* src = "adder.py:7" *)
  reg [7:0] left;
  always @(posedge clk) begin left <= a; total <= left + b; end
endmodule

module queue(input clk, input push, input [2:0] at, input [2:0] from, input [7:0] data,
             output [7:0] first);
  reg [7:0] store [0:7];
  always @(posedge clk) if (push) store[at] <= data;
  assign first = store[from];
endmodule

module design(input clk, input rst, input push, input [9:0] x, output [15:0] y);
  wire [7:0] first, word;
  queue fifo(.clk, .push, .at(x[2:0]), .from(x[5:3]), .data(x[9:2]), .first);
  systola_sram #(.DEPTH(64), .WIDTH(8), .GRANULARITY(8)) ram(
    .clk, .r_en(1'b1), .r_addr(first[5:0]), .r_data(word), .w_en(push), .w_addr(x[5:0]),
    .w_data(x[7:0]));
  adder low(.clk, .a(word), .b(first), .total(y[7:0]));
  adder high(.clk, .a(x[7:0]), .b(8'd3), .total(y[15:8]));
endmodule
"""


@pytest.fixture(scope="module")
def cells() -> Cells:
    return generic_cells()


@pytest.fixture(scope="module")
def mapped(cells, tmp_path_factory) -> tuple[Netlist, Path]:
    folder = tmp_path_factory.mktemp("design")
    source = folder / "design.v"
    source.write_text(DESIGN)
    return map_netlist([source], "design", cells, Effort.QUICK, folder, lambda text: None)


def test_areas_of_blocks_sum_to_the_whole(cells, mapped) -> None:
    netlist, _ = mapped
    blocks = area.blocks(netlist, cells.library)
    assert list(blocks) == [TOP, "fifo", "high", "low"]
    parts = [blocks[name] for name in ("fifo", "high", "low")]
    assert blocks[TOP].area_ge == pytest.approx(sum(part.area_ge for part in parts))
    assert blocks["fifo"].area_ge == 0.0  # only a memory
    # Each register of the adders is a flip-flop of 16/3 gate equivalents, and nothing else is.
    assert (blocks["low"].ffs, blocks["high"].ffs, blocks[TOP].ffs) == (16, 16, 32)
    assert blocks["high"].area_ge > 16 * 16 / 3


def test_memories_stay_memories(cells, mapped) -> None:
    netlist, _ = mapped
    sizes = {m.name: (m.kind, memories.words(m), memories.bits(m)) for m in netlist.macros}
    assert sizes == {"fifo.store": (MEMORY, 8, 64), "ram": (SRAM, 64, 512)}
    blocks = area.blocks(netlist, cells.library)
    assert (blocks[TOP].sram_bits, blocks[TOP].other_bits) == (512, 64)
    assert blocks["fifo"].other_bits == 64


def test_the_longest_path_names_registers_and_their_lines(cells, mapped) -> None:
    netlist, _ = mapped
    paths, ports = analyse(netlist, cells.library)
    found = {(path.start, path.end): path for path in paths}
    path = found["high.left[1]", "high.total[7]"]
    assert path.start_source == "adder.py:7" and path.stages[0].block == "high"
    assert path.end_source.split("/")[-1].startswith("design.v:5")
    # Where paths from two blocks meet, both are reported, not only the longer one.
    to_low = {start.split("[")[0] for start, end in found if end == "low.total[7]"}
    assert to_low == {"fifo.store", "low.left"}
    # From the FIFO's data through the adder, and from it to the address of the SRAM.
    assert ("fifo.store", "low.total[7]") in found and ("fifo.store", "ram") in found
    fo4 = cells.library.fo4_ns
    read = memories.SMALL_READ * 2 + memories.SMALL_READ_PER_BIT * 3
    assert found["fifo.store", "ram"].ns == pytest.approx((read + memories.SRAM_SETUP) * fo4)
    assert ports["input to output"] == float("-inf")
    assert 0 < ports["register to output"] < paths[0].ns


CHAIN = {
    "modules": {
        "chain": {
            "ports": {"clk": {"direction": "input", "bits": [2]}},
            "cells": {
                name: {"type": kind, "parameters": {}, "attributes": {}, "connections": pins}
                for name, kind, pins in (
                    ("from", "DFF_X1", {"CK": [2], "D": [7], "Q": [3]}),
                    ("not", "INV_X1", {"A": [3], "Y": [4]}),
                    ("and", "NAND2_X1", {"A": [4], "B": [3], "Y": [5]}),
                    ("to", "DFF_X1", {"CK": [2], "D": [5], "Q": [6]}),
                )
            },
            "netnames": {
                name: {"hide_name": 0, "bits": [bit], "attributes": {"src": "chain.py:1"}}
                for name, bit in (("clk", 2), ("first", 3), ("last", 6))
            },
        }
    }
}


def test_timing_of_two_gates_is_what_logical_effort_says(cells, tmp_path) -> None:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN, indent=2))
    pins = {name: cell.inputs + cell.outputs for name, cell in cells.library.cells.items()}
    netlist = load_netlist(path, pins, "chain")
    (found,), _ = analyse(netlist, cells.library)
    # In τ: loads are in inputs of the smallest inverter (INV 1, NAND2 4/3, D 2).
    register = FLIP_FLOP_PARASITIC + 1 + 4 / 3
    inverter = 1 + 4 / 3
    nand = 2 + 2
    tau_ns = TAU_PS / 1000
    assert found.ns == pytest.approx((register + inverter + nand + SETUP_TAU) * tau_ns, rel=1e-4)
    assert (found.start, found.end, found.gates) == ("first", "last", 3)
    assert cells.library.fo4_ns == pytest.approx(5 * tau_ns)


def test_a_combinational_loop_is_named(cells, tmp_path) -> None:
    loop = json.loads(json.dumps(CHAIN))
    loop["modules"]["chain"]["cells"]["not"]["connections"]["A"] = [5]
    path = tmp_path / "loop.json"
    path.write_text(json.dumps(loop, indent=2))
    pins = {name: cell.inputs + cell.outputs for name, cell in cells.library.cells.items()}
    with pytest.raises(SynthError, match="combinational loop through"):
        analyse(load_netlist(path, pins, "chain"), cells.library)


# Blocks of the NPU alone -------------------------------------------------------------------------


def test_a_queue_of_the_generator_is_a_memory_with_its_source_lines(cells, tmp_path) -> None:
    from amaranth.back import verilog
    from amaranth.lib.fifo import SyncFIFOBuffered

    fifo = SyncFIFOBuffered(width=12, depth=5)
    ports = [fifo.w_data, fifo.w_en, fifo.w_rdy, fifo.r_data, fifo.r_en, fifo.r_rdy]
    source = tmp_path / "queue.v"
    source.write_text(verilog.convert(fifo, name="queue", ports=ports))
    netlist, log = map_netlist([source], "queue", cells, Effort.QUICK, tmp_path, lambda text: None)
    (store,) = netlist.macros  # one word is in the output's register
    assert (store.kind, memories.words(store), memories.bits(store)) == (MEMORY, 4, 48)
    paths, _ = analyse(netlist, cells.library)
    assert "amaranth/lib/fifo.py" in paths[0].start_source
    assert warnings(log) == {}


def test_the_array_is_registers_and_no_memory(cells, tmp_path) -> None:
    source = tmp_path / "two.sv"
    source.write_text("""
module two(input clk, rst, swap, wgt_valid, wgt_across, input [17:0] act, wgt, input tag_i,
           output [63:0] sums, output tag_o);
  systola_array #(.ROWS(2), .COLS(2), .TAG_BITS(1)) array(.*);
endmodule
""")
    array = ROOT / "rtl" / "systola_array.sv"
    files = [source, array]
    netlist, log = map_netlist(files, "two", cells, Effort.QUICK, tmp_path, lambda text: None)
    assert netlist.macros == []
    blocks = area.blocks(netlist, cells.library)
    # Four elements with weight and shadow weight of 9 bits; two activations; two sums, twice.
    assert blocks["array"].ffs > 4 * 2 * 9 + 2 * 9 + 2 * (18 + 18)
    assert list(warnings(log)) == ["arrays made of registers"]


# The memory wrapper ------------------------------------------------------------------------------

EQUAL = """
read_verilog -sv -DVERILATOR {file}
chparam {settings} {module}
prep -top {module}
memory_map
rename -top gold
design -stash gold
read_verilog -sv {file}
chparam {settings} {module}
prep -top {module}
memory_map
rename -top gate
design -copy-from gold -as gold gold
equiv_make gold gate equiv
hierarchy -top equiv
opt -full
equiv_simple
equiv_induct
equiv_status -assert
"""


def compare_forms(file: Path, settings: str, folder: Path) -> str:
    """The log of a proof that both forms of a module in `rtl/` are the same."""
    script = EQUAL.format(file=file, settings=settings, module=file.stem)
    return run_yosys(find_yosys(), script, folder, lambda text: None).read_text()


@pytest.mark.parametrize("part", [2, 4])
def test_both_forms_of_the_memory_wrapper_are_equal(tmp_path, part) -> None:
    settings = f"-set DEPTH 4 -set WIDTH 4 -set GRANULARITY {part}"
    assert "20 are proven and 0 are unproven" in compare_forms(SRAM_FILE, settings, tmp_path)
    wrong = tmp_path / SRAM_FILE.name
    wrong.write_text(SRAM_FILE.read_text().replace("if (w_en[i])", "if (~w_en[i])"))
    with pytest.raises(SynthError, match="unproven"):
        compare_forms(wrong, settings, tmp_path)


@pytest.mark.parametrize("width", [4, 6])
def test_both_forms_of_the_multiplier_are_equal(tmp_path, width) -> None:
    settings = f"-set WIDTH {width}"
    proven = f"{2 * width} are proven and 0 are unproven"
    assert proven in compare_forms(MULTIPLIER_FILE, settings, tmp_path)
    wrong = tmp_path / MULTIPLIER_FILE.name
    wrong.write_text(MULTIPLIER_FILE.read_text().replace("(x & y) |", "(x & ~y) |"))
    with pytest.raises(SynthError, match="unproven"):
        compare_forms(wrong, settings, tmp_path)


def test_the_multiplier_becomes_multipliers_of_the_fpga(tmp_path) -> None:
    files = [MULTIPLIER_FILE]
    blocks, _ = ecp5.map_to_ecp5(files, MULTIPLIER_FILE.stem, tmp_path, lambda text: None)
    assert blocks[""].dsps == 4


def test_the_memory_wrapper_becomes_block_ram(tmp_path) -> None:
    source = tmp_path / "box.v"
    source.write_text("""
module box(input clk, input r_en, input [3:0] w_en, input [9:0] r_addr, w_addr,
           input [31:0] w_data, output [31:0] r_data);
  systola_sram #(.DEPTH(1024), .WIDTH(32), .GRANULARITY(8)) ram(.*);
endmodule
""")
    blocks, warned = ecp5.map_to_ecp5([source, SRAM_FILE], "box", tmp_path, lambda text: None)
    assert list(blocks) == ["", "ram"]
    assert blocks["ram"].brams == blocks[""].brams == 2 and blocks[""].lutram == 0
    assert blocks[""].luts <= 2  # nothing for a read of what is being written
    assert warned == {}


def test_a_queue_becomes_block_ram(tmp_path) -> None:
    source = tmp_path / "box.v"
    source.write_text("""
module box(input clk, input r_en, w_en, input [2:0] r_addr, w_addr,
           input [71:0] w_data, output [71:0] r_data);
  systola_sram #(.DEPTH(8), .WIDTH(72), .GRANULARITY(72)) ram(.*);
endmodule
""")
    blocks, _ = ecp5.map_to_ecp5([source, SRAM_FILE], "box", tmp_path, lambda text: None)
    assert (blocks[""].brams, blocks[""].luts) == (2, 0)


def test_queues_become_block_ram_as_long_as_there_is_some() -> None:
    def memory(name: str, width: int, words: int, **more: bool) -> Memory:
        given = {"bytes": False, "clocked": True, **more}
        return Memory(name=name, width=width, words=words, **given)

    deep = memory("deep", 72, 1024)
    narrow, wide, wider = (memory(f"m{width}", width, 8) for width in (20, 72, 144))
    assert (deep.blocks, memory("bytes", 32, 512, bytes=True).blocks, wide.tables) == (4, 1, 72)
    every = [deep, narrow, wide, wider, memory("at_once", 36, 8, clocked=False)]
    assert into_blocks(every) == ["m144", "m72"]  # one for 20 bits saves too little
    assert into_blocks(every, blocks=8 + 4 + 3) == ["m72"]
    assert into_blocks(every, blocks=8 + 4 + 1) == []


def test_a_memory_that_asks_for_tables_gets_no_block_ram() -> None:
    ports = {"RD_PORTS": 1, "RD_CLK_ENABLE": 1, "WR_PORTS": 1}
    cell = {
        "type": MEMORY,
        "parameters": {"WIDTH": 72, "SIZE": 8, **ports},
        "connections": {"WR_EN": [2] * 72},
    }
    asks = {**cell, "attributes": {"ram_style": "distributed"}}
    found = list(memories_of({"cells": {"queue": {**cell, "attributes": {}}, "contexts": asks}}))
    assert into_blocks(found) == ["queue"]


def test_a_table_counts_for_the_block_of_the_wire_it_is_named_after(tmp_path) -> None:
    """A constant first bit, which wires of many blocks have, says nothing about a block."""
    names = {
        "a.sum": ["0", 7],
        "b.c.none": ["0"],
        "b.copy": [9],
        "b.c.of": [9],
    }
    cells = {
        **{block: {"type": ecp5.SCOPE} for block in ("a", "b", "b.c")},
        **{f"{wire}_LUT4_Z": {"type": "LUT4"} for wire in ("a.sum", "b.copy")},
    }
    wires = {name: {"bits": bits} for name, bits in names.items()}
    netlist = tmp_path / "netlist.json"
    modules = {"top": {"netnames": wires, "cells": cells}}
    netlist.write_text(json.dumps({"modules": modules}, indent=2))
    blocks = ecp5.by_block(netlist, "top")
    assert {name: block.luts for name, block in blocks.items()} == {"": 2, "a": 1, "b": 1, "b.c": 1}


def test_resources_count_carries_and_small_memories_as_tables() -> None:
    kinds = Counter(LUT4=5, CCU2C=3, TRELLIS_DPR16X4=2, TRELLIS_FF=7, MULT18X18D=1, DP16KD=4)
    found = ecp5.resources(kinds)
    assert (found.luts, found.ffs, found.dsps, found.brams, found.lutram) == (19, 7, 1, 4, 2)


def test_the_wrapper_connects_every_pin(tmp_path) -> None:
    ports = {
        "clk": {"direction": "input", "bits": [2]},
        "a": {"direction": "input", "bits": [3, 4, 5]},
        "y": {"direction": "output", "bits": [6, 7]},
    }
    (tmp_path / "wrapper.v").write_text(wrapper("inner", "outer", ports))
    (tmp_path / "inner.v").write_text(
        "module inner(input clk, input [2:0] a, output [1:0] y); assign y = a[2:1]; endmodule"
    )
    script = """
read_verilog -lib +/ecp5/cells_sim.v +/ecp5/cells_bb.v
read_verilog wrapper.v inner.v
hierarchy -check -top outer
flatten
check -assert
select -assert-count 5 t:TRELLIS_FF
"""
    run_yosys(find_yosys(), script, tmp_path, lambda text: None)


def test_a_script_that_fails_shows_the_end_of_the_log(tmp_path) -> None:
    with pytest.raises(SynthError, match=r"Yosys failed .*\n(.|\n)*No such command: nothing"):
        run_yosys(find_yosys(), "nothing\n", tmp_path, lambda text: None)

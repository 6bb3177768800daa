"""Energy: waves are read, played on a netlist bit for bit, and priced."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sw.energy.account import PARTS, Sources, measure, source_nets
from sw.energy.cells import change_energy, read_energies
from sw.energy.errors import EnergyError
from sw.energy.flow import check_states
from sw.energy.parameters import REFERENCE_PJ_PER_BIT, MemoryEnergy
from sw.energy.states import States, read_states
from sw.synth.area import blocks
from sw.synth.flow import analyse, generic_cells, map_netlist
from sw.synth.gating import ClockGates, gated_clocks
from sw.synth.generic import (
    CLOCK_GATE_CLOCKED_INVERTERS,
    CLOCK_GATE_DRIVE,
    CLOCKED_INVERTERS,
    FLIP_FLOP_PARASITIC,
)
from sw.synth.liberty import parse
from sw.synth.netlist import Netlist
from sw.synth.recipe import Effort

CELLS = generic_cells()
ENERGIES = read_energies(parse(CELLS.text, "generic"), CELLS.library)
MEMORY = MemoryEnergy(sram_pj_per_bit=REFERENCE_PJ_PER_BIT, dram_pj_per_byte=100.0)

DESIGN = """
module counter(input clk, input go, input [7:0] step, output reg [7:0] total);
  reg [7:0] hidden;
  always @(posedge clk) begin
    hidden <= step ^ 8'h5a;
    if (go) total <= total + hidden;
  end
endmodule

module design(input clk, input go, input [7:0] step, output [7:0] y, output [7:0] z);
  counter left(.clk, .go, .step, .total(y));
  systola_sram #(.DEPTH(64), .WIDTH(8), .GRANULARITY(8)) ram(
    .clk, .r_en(go), .r_addr(y[5:0]), .r_data(z), .w_en(1'b0), .w_addr(y[5:0]), .w_data(y));
endmodule
"""


@pytest.fixture(scope="module")
def netlist(tmp_path_factory) -> Netlist:
    folder = tmp_path_factory.mktemp("energy")
    source = folder / "design.v"
    source.write_text(DESIGN)
    return map_netlist([source], "design", CELLS, Effort.QUICK, folder, lambda text: None)[0]


@pytest.fixture(scope="module")
def gated(tmp_path_factory) -> Netlist:
    folder = tmp_path_factory.mktemp("gated")
    source = folder / "design.v"
    source.write_text(DESIGN)
    return map_netlist([source], "design", CELLS, Effort.QUICK, folder, lambda text: None, True)[0]


def packed(bits: np.ndarray) -> np.ndarray:
    """[cycles, bits, words] of [windows, cycles, bits]."""
    padded = np.zeros((*bits.shape[1:], -(-len(bits) // 64) * 64), np.uint8)
    padded[:, :, : len(bits)] = bits.transpose(1, 2, 0)
    return np.packbits(padded, axis=2, bitorder="little").view("<u8")


def states_of(windows: int, size: int = 4) -> tuple[States, dict[str, np.ndarray]]:
    """What the design does, by a model of its own; register `hidden` is not told."""
    rng = np.random.default_rng(1)
    go = rng.integers(0, 2, (windows, size))
    step = rng.integers(0, 256, (windows, size))
    data = rng.integers(0, 256, (windows, size))
    total = rng.integers(0, 256, (windows, size))
    for cycle in range(2, size):
        hidden = step[:, cycle - 2] ^ 0x5A
        moved = total[:, cycle - 1] + hidden * go[:, cycle - 1]
        total[:, cycle] = moved & 255
    named = {"dut.go": (go, 1), "dut.step": (step, 8), "dut.left.total": (total, 8)}
    named |= {"dut.ram.r_data": (data, 8), "dut.clk": (np.zeros_like(go), 1)}
    bits = {
        name: packed((values[..., None] >> np.arange(width)) & 1)
        for name, (values, width) in named.items()
    }
    return States(cycle=np.arange(windows), bits=bits), {"go": go, "total": total, "step": step}


def test_next_states_of_the_netlist_are_those_of_the_model(netlist) -> None:
    sources = source_nets(netlist, CELLS.library, "dut")
    states, _ = states_of(windows=100)
    found = measure(netlist, CELLS.library, ENERGIES, MEMORY, sources, states)
    # 8 bits of `total` are compared; the 8 of `hidden` follow from the cycles before.
    assert (found.checked, found.wrong, found.unknown) == (800, 0, 0.5)


def test_a_state_that_the_netlist_does_not_reach_is_found(netlist) -> None:
    sources = source_nets(netlist, CELLS.library, "dut")
    states, _ = states_of(windows=100)
    states.bits["dut.left.total"][3, 2, 0] ^= np.uint64(0b101)  # bit 2 in windows 0 and 2
    found = measure(netlist, CELLS.library, ENERGIES, MEMORY, sources, states)
    assert found.wrong == 2
    with pytest.raises(EnergyError, match="2 of 800 bits of next states"):
        check_states(found)
    with pytest.raises(EnergyError, match="no register of the netlist has the name"):
        check_states(replace(found, checked=0, wrong=0))


def test_clock_and_memory_are_priced_by_what_happens(netlist) -> None:
    sources = source_nets(netlist, CELLS.library, "dut")
    states, model = states_of(windows=70)
    found = measure(netlist, CELLS.library, ENERGIES, MEMORY, sources, states)
    left, top = found.blocks.index("left"), found.blocks.index("")
    # 16 flip-flops, 2 fF of each clock pin and the inverters behind it, at 1 V.
    each = 2e-3 + 2 * CLOCKED_INVERTERS * 1e-3
    # float32 products of the BLAS differ in the last place from processor to processor.
    np.testing.assert_allclose(found.pj["clock"][left], 16 * each, rtol=1e-6)
    price = MEMORY.access(bits=512, width=8)
    np.testing.assert_allclose(found.pj["memories"][top], price * model["go"][:, 3], rtol=1e-6)
    # What leaves the registers changes where the model's values do, at half of the load a change.
    changes = np.bitwise_count(model["total"][:, 3] ^ model["total"][:, 2])
    inside = found.pj["cells"][left] - FLIP_FLOP_PARASITIC / 2 * 1e-3 * changes
    assert inside.min() > -1e-6 and inside.max() > 0
    assert set(found.pj) | {"leakage"} == set(PARTS)


def test_registers_behind_a_closed_clock_gate_hold(netlist, gated) -> None:
    """`total` is taken when `go` is 1: its 8 registers have a gate, those of `hidden` have none."""
    assert gated_clocks(gated, CELLS.library) == ClockGates(gates=1, gated=8, flip_flops=16)
    assert gated_clocks(netlist, CELLS.library).gates == 0
    sources = source_nets(gated, CELLS.library, "dut")
    states, _ = states_of(windows=100)
    found = measure(gated, CELLS.library, ENERGIES, MEMORY, sources, states)
    assert (found.checked, found.wrong, found.unknown) == (800, 0, 0.5)
    states.bits["dut.left.total"][3, 2, 0] ^= np.uint64(0b101)
    assert measure(gated, CELLS.library, ENERGIES, MEMORY, sources, states).wrong == 2


def test_a_clock_behind_a_gate_is_priced_where_it_is_open(gated) -> None:
    sources = source_nets(gated, CELLS.library, "dut")
    states, model = states_of(windows=70)
    found = measure(gated, CELLS.library, ENERGIES, MEMORY, sources, states)
    left = found.blocks.index("left")
    pin = 2e-3
    each = pin + 2 * CLOCKED_INVERTERS * 1e-3
    gate = pin + 2 * CLOCK_GATE_CLOCKED_INVERTERS * 1e-3
    drains = 2 * CLOCK_GATE_DRIVE * 1e-3
    # The edge that ends cycle 2 takes what `go` said in it.
    opened = model["go"][:, 2]
    np.testing.assert_allclose(
        found.pj["clock"][left], 8 * each + gate + opened * (8 * each + drains), rtol=1e-6
    )


def test_clock_gates_are_no_flip_flops_and_begin_no_path(gated, tmp_path) -> None:
    (longest, *_), _ = analyse(gated, CELLS.library)
    assert longest.ns > 0
    assert blocks(gated, CELLS.library)["left"].ffs == 16


MEMORY_DESIGN = """
module design(input clk, input go, input [7:0] step, output reg [7:0] y, output reg [7:0] z);
  reg [7:0] words [0:3];
  always @(posedge clk) begin
    if (go) words[step[1:0]] <= step;
    y <= words[step[3:2]] ^ step;
    z <= ~step;
  end
endmodule
"""


def test_registers_behind_memories_that_waves_do_not_have_are_not_compared(tmp_path) -> None:
    """`y` is of a small memory's data, which no signal of the simulator has; `z` is not."""
    source = tmp_path / "design.v"
    source.write_text(MEMORY_DESIGN)
    found, _ = map_netlist([source], "design", CELLS, Effort.QUICK, tmp_path, lambda text: None)
    rng = np.random.default_rng(3)
    step = rng.integers(0, 256, (50, 4))
    y = rng.integers(0, 256, (50, 4))
    z = np.roll(~step & 255, 1, axis=1)
    bits = {
        name: packed((values[..., None] >> np.arange(8)) & 1)
        for name, values in {"dut.step": step, "dut.y": y, "dut.z": z}.items()
    }
    bits["dut.go"] = packed(np.zeros((50, 4, 1), int))
    states = States(cycle=np.arange(50), bits=bits)
    sources = source_nets(found, CELLS.library, "dut")
    activity = measure(found, CELLS.library, ENERGIES, MEMORY, sources, states)
    assert (activity.checked, activity.wrong) == (8 * 50, 0)


HELD_DESIGN = """
module design(input clk, input go, input [7:0] step, output reg [7:0] y);
  reg [7:0] hidden;
  always @(posedge clk) begin
    if (go) hidden <= step;
    y <= hidden ^ step;
  end
endmodule
"""


def test_a_hidden_register_behind_a_closed_gate_is_not_known(tmp_path) -> None:
    """What `hidden` held before the window, its waves do not tell: `y` is compared where the gate
    was open in the window."""
    source = tmp_path / "design.v"
    source.write_text(HELD_DESIGN)
    found, _ = map_netlist([source], "design", CELLS, Effort.QUICK, tmp_path, print, True)
    rng = np.random.default_rng(4)
    go, step = rng.integers(0, 2, (90, 4)), rng.integers(0, 256, (90, 4))
    hidden, y = rng.integers(0, 256, 90), rng.integers(0, 256, (90, 4))
    for cycle in range(3):
        y[:, cycle + 1] = hidden ^ step[:, cycle]
        hidden = np.where(go[:, cycle], step[:, cycle], hidden)
    bits = {
        name: packed((values[..., None] >> np.arange(8)) & 1)
        for name, values in {"dut.step": step, "dut.y": y}.items()
    }
    bits["dut.go"] = packed(go[..., None])
    states = States(cycle=np.arange(90), bits=bits)
    sources = source_nets(found, CELLS.library, "dut")
    activity = measure(found, CELLS.library, ENERGIES, MEMORY, sources, states)
    told = int((go[:, 0] | go[:, 1]).sum())
    assert (activity.checked, activity.wrong) == (8 * told, 0) and 0 < told < 90


def test_where_nothing_changes_only_the_clock_takes_energy(netlist) -> None:
    sources = source_nets(netlist, CELLS.library, "dut")
    states, _ = states_of(windows=64)
    still = {name: np.repeat(words[:1] * 0, 4, axis=0) for name, words in states.bits.items()}
    still["dut.left.total"] = np.zeros_like(still["dut.left.total"])
    quiet = States(cycle=states.cycle, bits=still)
    found = measure(netlist, CELLS.library, ENERGIES, MEMORY, sources, quiet)
    assert found.wrong == 0
    assert all(found.pj[part].sum() == 0 for part in ("switching", "cells", "memories"))
    assert found.pj["clock"].sum() > 0 and found.leakage_nw.sum() > 100


def test_a_change_takes_the_mean_of_the_tables_at_its_load() -> None:
    inverter = ENERGIES.cells["INV_X1"].outputs["Y"]
    np.testing.assert_allclose(change_energy(inverter, 0.01, np.array([0.0, 0.5])), 0.0005)
    assert change_energy((), 0.01, np.array([1.0])) == 0


WAVES = """$timescale 1ns $end
 $scope module systola_sim $end
  $scope module events $end
   $var wire 1 ! running $end
   $var wire 36 " cycle [35:0] $end
  $upscope $end
  $scope module tb $end
   $var wire 3 # value [2:0] $end
   $var wire 1 $ flag $end
  $upscope $end
 $upscope $end
$enddefinitions $end
#100
0!
b000000000000000000000000000000000000 "
b101 #
1$
#110
1!
#200
b000000000000000000000000000000001001 "
b110 #
#210
b000000000000000000000000000000001010 "
0$
#300
"""


def test_waves_become_windows_within_the_run(tmp_path: Path) -> None:
    path = tmp_path / "waves.vcd"
    path.write_text(WAVES)
    states = read_states(path, {"systola_sim.tb.value", "systola_sim.tb.flag", "gone"}, 2)
    # The window at 100 begins before the run, the one at 300 is cut off.
    assert states.cycle.tolist() == [10] and sorted(states.bits) == [
        "systola_sim.tb.flag",
        "systola_sim.tb.value",
    ]
    assert states.bits["systola_sim.tb.value"][:, :, 0].tolist() == [[0, 1, 1], [0, 1, 1]]
    assert states.bits["systola_sim.tb.flag"][:, :, 0].tolist() == [[1], [0]]


def test_a_run_without_a_window_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "waves.vcd"
    path.write_text(WAVES)
    with pytest.raises(EnergyError, match="shorter than the distance of two samples"):
        read_states(path, {"systola_sim.tb.value"}, 3)
    path.write_text(WAVES.replace("running", "walking"))
    with pytest.raises(EnergyError, match=r"signal systola_sim\.events\.running is not in them"):
        read_states(path, set(), 2)


def test_memories_cost_the_square_root_of_their_size() -> None:
    assert MEMORY.access(65536, 64) == pytest.approx(10.0)
    assert MEMORY.access(4 * 65536, 64) == pytest.approx(20.0)


def test_sources_have_names_of_the_waves(netlist) -> None:
    sources: Sources = source_nets(netlist, CELLS.library, "dut")
    assert {"dut.go", "dut.step", "dut.left.total", "dut.left.hidden"} < sources.signals()
    assert "dut.ram.r_data" in sources.signals()

"""Small memories have no address bit that is a constant, and hold what they held."""

import json

import pytest

from sw.synth.errors import SynthError
from sw.synth.fpga.ecp5 import MAPPED, map_to_ecp5
from sw.synth.fpga.short_memories import MEMORY, repeat_address_bits
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys

WORDS = """
module words(input clk, input en, input [2:0] into, from, input [3:0] in, output [3:0] out);
  reg [3:0] held [0:7];
  always @(posedge clk) if (en) held[into] <= in;
  assign out = held[from];
endmodule
"""


@pytest.fixture
def mapped(tmp_path):
    source = tmp_path / "words.v"
    source.write_text(WORDS)
    map_to_ecp5([source], "words", tmp_path, lambda text: None)
    return tmp_path / MAPPED


def _memories(design) -> list:
    cells = design["modules"]["words"]["cells"].values()
    return [cell for cell in cells if cell["type"] == MEMORY]


def test_an_address_bit_is_there_twice_and_words_stay_apart(mapped):
    (cell,) = _memories(json.loads(mapped.read_text()))
    for pins in ("RAD", "WAD"):
        bits = cell["connections"][pins]
        assert bits[3] == bits[2] and len(set(bits[:3])) == 3
    assert _same_as_before(mapped.parent)


def test_words_that_are_one_are_found(mapped):
    """The comparison of the test above can fail."""
    design = json.loads(mapped.read_text())
    (cell,) = _memories(design)
    for pins in ("RAD", "WAD"):
        cell["connections"][pins][2:] = ["0", "0"]
    mapped.write_text(json.dumps(design))
    assert not _same_as_before(mapped.parent)


@pytest.mark.parametrize(
    ("read", "write", "first", "changed"),
    [
        ([5, "0", "0", "0"], [6, "0", "0", "0"], "0" * 64, 3),
        ([5, 7, 8, "0"], [6, "0", "0", "0"], "x" * 64, 1),
        ([5, 7, 8, 9], [6, "0", "0", "0"], "x" * 64, 0),
        ([5, 7, 8, "0"], [6, 7, 8, "0"], "0" * 63 + "1", 0),
        ([5, 7, 8, "0"], [6, 7, 8, "1"], "0" * 64, 0),
    ],
)
def test_bits_that_are_no_constant_of_both_stay(tmp_path, read, write, first, changed):
    cell = {
        "type": MEMORY,
        "parameters": {"INITVAL": first},
        "connections": {"RAD": [*read], "WAD": [*write]},
    }
    netlist = tmp_path / "netlist.json"
    netlist.write_text(json.dumps({"modules": {"words": {"cells": {"held": cell}}}}))
    assert repeat_address_bits(netlist) == changed
    (cell,) = _memories(json.loads(netlist.read_text()))
    for before, after in ((read, "RAD"), (write, "WAD")):
        expected = [*before]
        for bit in range(4 - changed, 4):
            expected[bit] = expected[bit - 1]
        assert cell["connections"][after] == expected


def _same_as_before(folder) -> bool:
    """Yosys proves it for all inputs of six cycles after memories of zeros."""
    design = json.loads((folder / MAPPED).read_text())
    design["modules"] = {"words": design["modules"]["words"]}
    (folder / "gate.json").write_text(json.dumps(design))
    lines = (
        f"read_verilog {folder}/words.v",
        "proc; memory; rename words gold",
        f"read_json {folder}/gate.json",
        "rename words gate",
        "read_verilog -overwrite +/ecp5/cells_sim.v",
        "miter -equiv -make_assert gold gate both",
        "hierarchy -check -top both; proc",
        "setattr -mod -unset whitebox -unset lib_whitebox *",
        "flatten; memory; opt_clean",
        "sat -verify -prove-asserts -seq 6 -set-init-zero both",
    )
    try:
        run_yosys(find_yosys(), "\n".join(lines) + "\n", folder, lambda text: None)
    except SynthError:
        assert "proof did fail" in (folder / "yosys.log").read_text()
        return False
    return True

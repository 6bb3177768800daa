"""Small memories have no address bit that is a constant, and hold what they held."""

import json

import pytest
from ecp5_proofs import mapped, same_as_before

from sw.synth.fpga.short_memories import MEMORY, repeat_address_bits

WORDS = """
module words(input clk, input en, input [2:0] into, from, input [3:0] in, output [3:0] out);
  reg [3:0] held [0:7];
  always @(posedge clk) if (en) held[into] <= in;
  assign out = held[from];
endmodule
"""


@pytest.fixture
def netlist(tmp_path):
    return mapped(tmp_path, "words", WORDS)


def _same(folder) -> bool:
    """In six cycles after memories of zeros."""
    sat = ("-seq 6", "-set-init-zero")
    return same_as_before(folder, "words", memories="memory", sat=sat)


def _memories(design) -> list:
    cells = design["modules"]["words"]["cells"].values()
    return [cell for cell in cells if cell["type"] == MEMORY]


def test_an_address_bit_is_there_twice_and_words_stay_apart(netlist):
    (cell,) = _memories(json.loads(netlist.read_text()))
    for pins in ("RAD", "WAD"):
        bits = cell["connections"][pins]
        assert bits[3] == bits[2] and len(set(bits[:3])) == 3
    assert _same(netlist.parent)


def test_words_that_are_one_are_found(netlist):
    """The comparison of the test above can fail."""
    design = json.loads(netlist.read_text())
    (cell,) = _memories(design)
    for pins in ("RAD", "WAD"):
        cell["connections"][pins][2:] = ["0", "0"]
    netlist.write_text(json.dumps(design))
    assert not _same(netlist.parent)


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

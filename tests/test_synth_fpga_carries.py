"""Gates in front of carries go into the carry cells, and nothing else changes."""

import json
from pathlib import Path

import pytest

from sw.synth.errors import SynthError
from sw.synth.fpga.ecp5 import MAPPED, map_to_ecp5
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys

SUMS = """
module sums(
  input [11:0] a, input [11:0] b, input [11:0] c, input [3:0] s,
  output [11:0] p, q, r, t, v, w, output u
);
  assign p = a + (b ^ {12{s[0]}}) + s[0];
  assign q = (a & {12{s[1]}}) + (b | {12{s[2]}});
  assign r = a - (b & {12{s[3]}});
  wire [11:0] inverse = ~a ^ {12{s[2]}};
  assign t = inverse + b;
  assign u = inverse[3];
  assign v = a + (s[0] ? b : c);
  assign w = a - (s[1] ? b : c);
endmodule
"""


@pytest.fixture
def mapped(tmp_path):
    source = tmp_path / "sums.v"
    source.write_text(SUMS)
    map_to_ecp5([source], "sums", tmp_path, lambda text: None)
    return tmp_path / MAPPED


def test_what_carries_take_in_gives_the_same_sums(mapped):
    # Yosys leaves 84. One of the two gates a bit in front of q stays, and what is taken off for w,
    # and an output's inverse.
    assert _tables(mapped) <= 28
    assert _same_as_before(mapped.parent)


def test_a_wrong_table_is_found(mapped):
    """The comparison of the test above can fail."""
    design = json.loads(mapped.read_text())
    cell = next(c for c in design["modules"]["sums"]["cells"].values() if c["type"] == "CCU2C")
    init = cell["parameters"]["INIT0"]
    cell["parameters"]["INIT0"] = ("0" if init[0] == "1" else "1") + init[1:]
    mapped.write_text(json.dumps(design, indent=2))
    assert not _same_as_before(mapped.parent)


def _tables(netlist: Path) -> int:
    cells = json.loads(netlist.read_text())["modules"]["sums"]["cells"].values()
    return sum(cell["type"] == "LUT4" for cell in cells)


def _same_as_before(folder: Path) -> bool:
    """Yosys proves it for all inputs."""
    design = json.loads((folder / MAPPED).read_text())
    design["modules"] = {"sums": design["modules"]["sums"]}
    (folder / "gate.json").write_text(json.dumps(design))
    try:
        _yosys(
            folder,
            f"read_verilog {folder}/sums.v",
            "proc; rename sums gold",
            f"read_json {folder}/gate.json",
            "rename sums gate",
            "read_verilog -overwrite +/ecp5/cells_sim.v",
            "miter -equiv -make_assert gold gate both",
            "hierarchy -check -top both; proc",
            "setattr -mod -unset whitebox -unset lib_whitebox -unset abc9_box *CCU2C*",
            "flatten; opt_clean",
            "sat -verify -prove-asserts both",
        )
    except SynthError:
        assert "proof did fail" in (folder / "yosys.log").read_text()
        return False
    return True


def _yosys(folder: Path, *lines: str) -> None:
    run_yosys(find_yosys(), "\n".join(lines) + "\n", folder, lambda text: None)

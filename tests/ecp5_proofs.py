"""Verilog mapped to an ECP5, and a proof by Yosys that it does the same."""

import json
from collections.abc import Sequence
from pathlib import Path

from sw.synth.errors import SynthError
from sw.synth.fpga.ecp5 import MAPPED, map_to_ecp5
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys


def mapped(folder: Path, top: str, verilog: str) -> Path:
    """The netlist of module `top` of a text, in `folder`."""
    source = folder / f"{top}.v"
    source.write_text(verilog)
    map_to_ecp5([source], top, folder, lambda text: None)
    return folder / MAPPED


def same_as_before(folder: Path, top: str, *, memories: str = "", sat: Sequence[str] = ()) -> bool:
    """Whether the netlist that `mapped` left in `folder` does what its Verilog does, for all
    inputs. memories : Yosys' passes for them; sat : more options of its proof."""
    design = json.loads((folder / MAPPED).read_text())
    design["modules"] = {top: design["modules"][top]}
    (folder / "gate.json").write_text(json.dumps(design))
    lines = (
        f"read_verilog {folder}/{top}.v",
        f"proc; {memories}; rename {top} gold",
        f"read_json {folder}/gate.json",
        f"rename {top} gate",
        "read_verilog -overwrite +/ecp5/cells_sim.v",
        "miter -equiv -make_assert gold gate both",
        "hierarchy -check -top both; proc",
        "setattr -mod -unset whitebox -unset lib_whitebox -unset abc9_box *",
        f"flatten; {memories}; opt_clean",
        " ".join(("sat -verify -prove-asserts", *sat, "both")),
    )
    try:
        run_yosys(find_yosys(), "\n".join(lines) + "\n", folder, lambda text: None)
    except SynthError:
        assert "proof did fail" in (folder / "yosys.log").read_text()
        return False
    return True

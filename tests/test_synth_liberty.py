"""Libraries of cells: what is read from Liberty, and what is said of files that cannot be used."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from sw.cli.main import main
from sw.synth import tools
from sw.synth.boolean import truth_table
from sw.synth.errors import SynthError
from sw.synth.generic import generic_library
from sw.synth.liberty import parse, read_text
from sw.synth.library import interpolate, make_library, read_library
from sw.synth.recipe import gate_clocks
from sw.synth.tables import TableStack, constant

GENERIC = generic_library()


def changed(old: str, new: str) -> str:
    assert old in GENERIC
    return GENERIC.replace(old, new)


def without_cell(name: str) -> str:
    start = GENERIC.index(f"  cell ({name})")
    end = GENERIC.find("  cell (", start + 1)
    return GENERIC[:start] + GENERIC[end if end > 0 else GENERIC.rindex("}") :]


@pytest.mark.parametrize(
    ("function", "table"),
    [
        ("!(A & B)", "1110"),
        ("(A B)'", "1110"),
        ("!A + !B", "1110"),
        ("A ^ B", "0110"),
        ("(A&B) | (!A&!B)", "1001"),
        ("A * B' | 0", "0010"),
        ("1", "1111"),
    ],
)
def test_functions_of_cells(function: str, table: str) -> None:
    assert truth_table(function, ["A", "B"]) == tuple(digit == "1" for digit in table)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("A &", "function 'A &': not an expression of Liberty"),
        ("(A", "function '(A': not an expression of Liberty"),
        ("A # B", "function 'A # B': not an expression of Liberty"),
        ("A C", "function 'A C': C is no input of the cell"),
    ],
)
def test_functions_that_are_none(function: str, message: str) -> None:
    with pytest.raises(SynthError, match=f"^{re.escape(message)}$"):
        truth_table(function, ["A", "B"])


def test_statements_become_a_tree() -> None:
    tree = parse(
        """/* a comment
        of two lines */ library (l) { time_unit : "10ps"; // another
          capacitive_load_unit (2, ff);
          define (x, cell, string)
          cell ("A 1") { pin (B) { values ("1, 2", \\
            "3, 4"); direction : input } } }""",
        "text",
    )
    (cell,) = tree.all("cell")
    (pin,) = cell.all("pin")
    assert (tree.name, cell.name, pin.text("direction")) == ("l", "A 1", "input")
    assert tree.text("time_unit") == "10ps"
    assert tree.attributes["capacitive_load_unit"] == ["2", "ff"]
    assert pin.attributes["values"] == ["1, 2", "3, 4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: '' is no Liberty; expected one group"),
        ("int main() {}", "line 1: 'int main() {}' is no Liberty"),
        ("cell (a) { }", "line 1: 'cell (a) { }' is no Liberty"),
        ("library (l) { \n area = 3; }", "line 2: 'area = 3; }' is no Liberty"),
        ("library (l) { } }", "line 1: '}' is no Liberty"),
        ("library (l) {\n cell (a) {\n", "ends inside cell (a), which begins near line 2"),
    ],
)
def test_files_that_are_no_liberty(text: str, message: str) -> None:
    with pytest.raises(SynthError, match=re.escape(message)):
        parse(text, "file.lib")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("library (l) { }", "library l has no cell"),
        (without_cell("DFF_X1"), "none of its 21 cells is a flip-flop with a rising clock edge"),
        (changed('"!(A & B)"', '"!(A | B)"'), "none of its 22 cells is a NAND2 by its function"),
        (changed('time_unit : "1ps"', 'time_unit : "1m"'), "time_unit '1m' is no time such as 1ns"),
        (changed("(1, ff)", "(1, kg)"), "capacitive_load_unit (1, kg) is neither pf nor ff"),
        (
            changed("area : 1.0000", "area : wide"),
            "file.lib: cell (INV_X2): area : wide: not a number",
        ),
        (changed('values ("30"', 'values ("3O"'), "'3O' is no list of numbers"),
        (changed('values ("30"', 'values ("30, 31"'), "2 values for an index of 1 × 1"),
    ],
)
def test_libraries_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(SynthError, match=re.escape(message)):
        make_library(parse(text, "file.lib"), "file.lib")


def test_gate_equivalent_is_the_smallest_nand2_or_the_one_named(tmp_path: Path) -> None:
    path = tmp_path / "cells.lib.gz"
    path.write_bytes(gzip.compress(GENERIC.encode()))
    library = read_library(path)
    assert (library.nand2.name, library.nand2.area) == ("NAND2_X1", 1.0)
    assert read_library(path, "NAND2_X2").nand2.area == pytest.approx(5 / 3, rel=1e-3)
    with pytest.raises(SynthError, match=r"--nand2 NAND_X2: no such cell in .*NAND2_X2"):
        read_library(path, "NAND_X2")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(SynthError, match="Compressed file ended"):
        read_text(path)


@pytest.mark.parametrize(
    "attribute",
    ["dont_use : true;", 'clock_gating_integrated_cell : "latch";', "is_macro_cell : true;"],
)
def test_cells_that_are_not_for_logic_are_not_used(attribute: str) -> None:
    text = changed("cell (NAND2_X1) {", f"cell (NAND2_X1) {{ {attribute}")
    library = make_library(parse(text, "file.lib"), "file.lib")
    assert library.unusable == ("ICG_X4", "NAND2_X1") and library.nand2.name == "NAND2_X2"


TABLE = """
library (l) { time_unit : "10ps"; capacitive_load_unit (2, ff);
  lu_table_template (t) { variable_1 : total_output_net_capacitance;
    variable_2 : input_net_transition; index_1 ("1, 3, 5"); index_2 ("10, 20"); }
  cell (INV) { area : 1; pin (A) { direction : input; capacitance : 1; }
    pin (Y) { direction : output; function : "!A";
      timing () { related_pin : "A"; timing_sense : negative_unate;
        cell_rise (t) { values ("1, 2", "3, 5", "7, 9"); } } } }
  cell (NAND) { area : 1; pin (A, B) { direction : input; }
    pin (Y) { direction : output; function : "(A*B)'"; } }
  cell (FF) { area : 4; ff (q, n) { clocked_on : "C"; next_state : "D"; }
    pin (C, D) { direction : input; } pin (Q) { direction : output; function : "q"; } } }
"""


def test_tables_have_transition_first_and_nanoseconds_and_picofarads() -> None:
    library = make_library(parse(TABLE, "file.lib"), "file.lib")
    table = library.cells["INV"].arcs[0].delay[0]
    assert table is not None
    assert table.slews.tolist() == pytest.approx([0.1, 0.2])
    assert table.loads.tolist() == pytest.approx([0.002, 0.006, 0.010])
    assert table.values.ravel().tolist() == pytest.approx([0.01, 0.03, 0.07, 0.02, 0.05, 0.09])
    assert interpolate(table, 0.15, 0.004) == pytest.approx(0.0275)
    # Beyond the ends the last interval goes on.
    assert interpolate(table, 0.3, 0.012) == pytest.approx(0.13)
    assert library.cells["NAND"].inputs == ("A", "B")


def test_many_look_ups_are_the_same_as_one() -> None:
    library = make_library(parse(TABLE, "file.lib"), "file.lib")
    table = library.cells["INV"].arcs[0].delay[0]
    assert table is not None
    stack = TableStack([constant(0.5), table])
    slews, loads = np.array([0.0, 0.15, 0.3, 9.0]), np.array([0.001, 0.004, 0.012, 2.0])
    which = np.array([1, 1, 1, 0], np.int32)
    singly = [interpolate(table, s, c) for s, c in zip(slews[:3], loads[:3])]
    assert stack.look_up(which, slews, loads).tolist() == pytest.approx([*singly, 0.5])


# The command line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "generc"], "no such target (did you mean 'generic'?); there are generic"),
        (["--target", "liberty"], "--target liberty needs a library of cells: --liberty FILE.lib"),
        (["--liberty", "x.lib"], "--liberty goes with --target liberty, not with --target generic"),
        (["--target", "liberty", "--liberty", "no.lib"], "Liberty file no.lib: No such file"),
        (["--effort", "slow"], "--effort slow: no such effort; there are quick, full"),
        (["--config", "tny"], "no such preset (did you mean 'tiny'?)"),
    ],
)
def test_bad_input_is_a_message(arguments, message, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["synth", *arguments])
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_missing_and_old_tools_are_named_with_what_installs_them(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SynthError, match=r"^Yosys is missing: pip install pyosys "):
        tools.find_yosys()
    with pytest.raises(SynthError, match=r"^nextpnr-ecp5 is missing: pip install yowasp"):
        tools.find_nextpnr()
    yosys = tmp_path / "yosys"
    yosys.write_text("#!/bin/sh\necho 'Yosys 0.23 (git)'\n")
    yosys.chmod(0o755)
    with pytest.raises(
        SynthError, match=r"yosys is too old \(Yosys 0.23 .*0.44 .*: pip install py"
    ):
        tools.find_yosys()
    yosys.write_text("#!/bin/sh\necho 'Yosys 0.51 (git)'\n")
    assert tools.find_yosys().version == "Yosys 0.51"


def test_a_clock_gate_is_the_smallest_without_a_pin_for_tests() -> None:
    gate = make_library(parse(GENERIC, "file.lib"), "file.lib").clock_gate
    assert gate is not None and gate.clock_gate is not None
    pins = gate.clock_gate
    assert (gate.name, pins.enable, pins.clock, pins.output) == ("ICG_X4", "E", "CK", "GCK")
    # For logic it is as good as marked `dont_use`.
    assert "ICG_X4" in make_library(parse(GENERIC, "file.lib"), "file.lib").unusable
    for text in (
        changed("latch_posedge", "latch_negedge"),
        changed("pin (GCK) {", "pin (SE) { direction : input; }\n    pin (GCK) {"),
    ):
        library = make_library(parse(text, "file.lib"), "file.lib")
        assert library.clock_gate is None
        with pytest.raises(SynthError, match=r"it has no clock gate .*without --clock-gating"):
            gate_clocks(library)

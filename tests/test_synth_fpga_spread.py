"""Rows of tables that stay free on an FPGA."""

import json

import pytest

from sw.synth.fpga import spread
from sw.synth.fpga.spread import TABLES, free_rows

PER_ROW = len(spread._COLUMNS) * len(spread._SITES)


def test_the_places_are_all_that_the_device_has():
    assert len(spread._ROWS) * PER_ROW == TABLES


@pytest.mark.parametrize("luts", [10_455, 20_000, 31_000, 37_600, 45_000, 52_000])
def test_room_is_left_for_the_design(luts):
    rows = free_rows(luts)
    assert 0 < len(rows) * PER_ROW <= TABLES - 1.3 * luts
    # One row after the other is kept free all over the device: none of the gaps is a wide one.
    gaps = [after - before for before, after in zip([-1, *rows], [*rows, 95], strict=True)]
    assert max(gaps) <= 2 + TABLES // (len(rows) * PER_ROW) * 2


@pytest.mark.parametrize("luts", [0, 10_000, 64_000, 83_640])
def test_a_small_or_a_full_design_is_left_as_it_comes(luts):
    assert free_rows(luts) == []


def test_cells_that_do_nothing_are_added(tmp_path):
    netlist = tmp_path / "flat.json"
    cells = {"one": {"type": "LUT4"}}
    netlist.write_text(json.dumps({"modules": {"top": {"cells": cells}}}, indent=2))
    added = spread.spread(netlist, "top", 20_000)
    found = json.loads(netlist.read_text())["modules"]["top"]["cells"]
    assert added == len(found) - 1 == len(free_rows(20_000)) * PER_ROW
    assert len({str(cell.get("attributes")) for cell in found.values()}) == len(found)

"""Look-up tables that stay free, so that what nextpnr places can be routed.

nextpnr's analytical placer fills the middle of a device entirely, however empty the rest is, and
then its router finds no way to the tables there. So whole rows of tables are given to cells that do
nothing. Rows, because a chain of carries runs along one.
"""

import json
from pathlib import Path

LARGEST = "--85k"
"""nextpnr's option for the largest ECP5, the device of which places are known here."""
TABLES = 83_640
"""Its look-up tables."""

_COLUMNS = range(2, 125)
_ROWS = [y for y in range(2, 94) if (y - 10) % 12]
"""Where the device has tiles of logic: all but the rows of block RAM and multipliers. Free rows go
from edge to edge, because nextpnr fills what they leave out."""
_SITES = [f"SLICE{letter}.K{number}" for letter in "ABCD" for number in "01"]
_MARGIN = 1.3
"""Tables that must be left for each that the netlist has: nextpnr needs more, for carries."""
_STEPS = range(2, 7)
_SMALL = TABLES // 8
"""Designs of fewer tables are left as they come."""


def free_rows(luts: int) -> list[int]:
    """Rows to keep free in a design of that many tables: each second, or third … or none."""
    for step in _STEPS if luts >= _SMALL else ():
        rows = _ROWS[::step]
        if TABLES - len(rows) * len(_COLUMNS) * len(_SITES) >= _MARGIN * luts:
            return rows
    return []


def spread(netlist: Path, top: str, luts: int) -> int:
    """Add cells that occupy `free_rows` to a netlist that Yosys wrote; returns how many."""
    cells = [
        json.dumps(f"free_{x}_{y}_{site}") + ": " + json.dumps(_cell(f"X{x}/Y{y}/{site}"))
        for y in free_rows(luts)
        for x in _COLUMNS
        for site in _SITES
    ]
    if not cells:
        return 0
    text = netlist.read_text()
    module = text.index(f'\n    "{top}": {{')
    begin = '\n      "cells": {'
    at = text.index(begin, module) + len(begin)
    more = "," if text[at:].lstrip()[0] != "}" else ""
    netlist.write_text(text[:at] + "\n" + ",\n".join(cells) + more + text[at:])
    return len(cells)


def _cell(site: str) -> dict[str, object]:
    """A table of nothing at a site."""
    ports = {**dict.fromkeys("ABCD", "input"), "Z": "output"}
    return {
        "hide_name": 0,
        "type": "LUT4",
        "parameters": {"INIT": "0" * 16},
        "attributes": {"BEL": site},
        "port_directions": ports,
        "connections": {},
    }

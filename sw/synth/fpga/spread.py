"""Look-up tables that stay free, so that what nextpnr places can be routed.

nextpnr's analytical placer fills the middle of a device entirely, however empty the rest is, and
then its router finds no way to the tables there: a tile has few wires into it. So in two of three
rows some tables of each tile are given to cells that do nothing. The third row stays whole,
because a chain of carries runs along one.
"""

import json
from collections.abc import Iterator
from pathlib import Path

LARGEST = "--85k"
"""nextpnr's option for the largest ECP5, the device of which places are known here."""
TABLES = 83_640
"""Its look-up tables."""

_COLUMNS = range(2, 125)
_ROWS = [y for y in range(2, 94) if (y - 10) % 12]
"""Where the device has tiles of logic: all but the rows of block RAM and multipliers. Free places
go from edge to edge, because nextpnr fills what they leave out."""
_WHOLE = 3
"""The first of that many rows stays whole."""
_SLICES = "ABCD"
"""Parts of a tile, of two tables each. The last ones stay free."""
_MARGIN = 1.3
"""Tables that must be left for each that the netlist has: nextpnr needs more, for carries."""
_SMALL = TABLES // 8
"""Designs of fewer tables are left as they come."""


def free_sites(luts: int) -> list[str]:
    """Tables to keep free in a design of that many: as many slices of a tile as there may be."""
    for slices in (3, 2, 1) if luts >= _SMALL else ():
        sites = list(_sites(slices))
        if TABLES - len(sites) >= _MARGIN * luts:
            return sites
    return []


def _sites(slices: int) -> Iterator[str]:
    for number, y in enumerate(_ROWS):
        if number % _WHOLE:
            for x in _COLUMNS:
                for letter in _SLICES[-slices:]:
                    yield from (f"X{x}/Y{y}/SLICE{letter}.K{k}" for k in "01")


def spread(netlist: Path, top: str, luts: int) -> int:
    """Add cells that occupy `free_sites` to a netlist that Yosys wrote; returns how many."""
    cells = [f"{json.dumps(f'free_{s}')}: {json.dumps(_cell(s))}" for s in free_sites(luts)]
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

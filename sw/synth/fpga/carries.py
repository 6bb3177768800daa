"""Gates in front of a chain of carries, which the tables of the chain take in.

A carry cell of an ECP5 has two tables of four inputs each, and an adder needs two inputs of each.
Yosys leaves what is in front of an adder, like the inverters of a sum or difference, in tables of
their own.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

CARRY, TABLE = "CCU2C", "LUT4"
_PINS = "ABCD"
_USUAL = "1"
"""What Yosys connects pin D of a carry cell with. Where it is 0 the table has the carry that a
place makes by itself: a function of A and B alone."""


def absorb(netlist: Path) -> int:
    """Let the carry cells of a netlist that Yosys wrote take in what they can; returns how many
    tables are gone."""
    design = json.loads(netlist.read_text())
    gone = sum(_absorb(module) for module in design["modules"].values())
    netlist.write_text(json.dumps(design, indent=2))
    return gone


def _absorb(module: dict[str, Any]) -> int:
    cells: dict[str, Any] = module["cells"]
    readers = Counter(bit for cell in cells.values() for bit in _read(cell))
    readers.update(
        b for p in module["ports"].values() for b in p["bits"] if p["direction"] != "input"
    )
    tables = {cell["connections"]["Z"][0]: name for name, cell in cells.items() if _is_table(cell)}
    free = {bit: name for bit, name in tables.items() if readers[bit] == 1}
    gone = []
    for cell in cells.values():
        if cell["type"] == CARRY:
            for place in "01":
                gone += _fill(cell, place, cells, free)
    for name in gone:
        del cells[name]
    return len(gone)


def _is_table(cell: dict[str, Any]) -> bool:
    return cell["type"] == TABLE and bool(cell["connections"].get("Z"))


def _read(cell: dict[str, Any]) -> Iterator[int]:
    for pin, bits in cell["connections"].items():
        if cell["port_directions"].get(pin) != "output":
            yield from bits


def _fill(
    cell: dict[str, Any], place: str, cells: dict[str, Any], free: dict[int, str]
) -> list[str]:
    """Take tables in front of A and B of one place of a carry cell in; returns their names."""
    pins, taken = cell["connections"], []
    for pin in "AB":
        name = free.get(pins[pin + place][0])
        if name is None or pins["D" + place] != [_USUAL]:
            continue
        table = cells[name]
        inputs = [p for p in _PINS if isinstance(table["connections"][p][0], int)]
        second = isinstance(pins["C" + place][0], int)
        if not 1 <= len(inputs) <= (1 if second else 2):
            continue
        init = _joined(cell["parameters"]["INIT" + place], pins["C" + place][0], pin, table, inputs)
        if init is None:
            continue
        cell["parameters"]["INIT" + place] = init
        pins[pin + place] = table["connections"][inputs[0]]
        if len(inputs) == 2:
            pins["C" + place] = table["connections"][inputs[1]]
        taken.append(name)
    return taken


def _joined(
    init: str, third: Any, pin: str, table: dict[str, Any], inputs: list[str]
) -> str | None:
    """The contents of a place that works out `table` on the way to `pin`, if there are any.

    With inputs A, B and C it passes the carry on or not; where it does not, A and B alone must tell
    which carry it makes.
    """
    passes: dict[tuple[int, int, int], int] = {}
    makes: dict[tuple[int, int], int] = {}
    for a, b, c in product((0, 1), repeat=3):
        values = {inputs[0]: a if pin == "A" else b}
        before = c
        if len(inputs) == 2:
            values[inputs[1]], before = c, int(third == "1")
        elif not isinstance(third, int):
            before = int(third == "1")
        inner = _value(table, values)
        x, y = (inner, b) if pin == "A" else (a, inner)
        passes[a, b, c] = _bit(init, 8 + 4 * before + 2 * y + x)
        if not passes[a, b, c] and makes.setdefault((a, b), _bit(init, 2 * y + x)) != _bit(
            init, 2 * y + x
        ):
            return None
    own = [makes.get((a, b), 0) for b, a in product((0, 1), repeat=2)]
    through = [passes[a, b, c] for c, b, a in product((0, 1), repeat=3)]
    return "".join(str(bit) for bit in reversed([*own, *own, *through]))


def _value(table: dict[str, Any], values: dict[str, int]) -> int:
    """A table's output; inputs that are not in `values` are constant. Undefined ones are 0."""
    place = 0
    for number, pin in enumerate(_PINS):
        bit = values[pin] if pin in values else int(table["connections"][pin][0] == "1")
        place |= bit << number
    return _bit(table["parameters"]["INIT"], place)


def _bit(init: str, place: int) -> int:
    """Yosys writes the highest one first."""
    return int(init[-1 - place] == "1")

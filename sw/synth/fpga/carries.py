"""Gates in front of a chain of carries, which the tables of the chain take in.

A carry cell of an ECP5 has two tables of four inputs each, and an adder needs two inputs of each.
Yosys leaves what is in front of an adder, like the inverters of a sum or difference, in tables of
their own.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from typing import Any

CARRY, TABLE = "CCU2C", "LUT4"
_PINS = "ABCD"
_USUAL = "1"
"""What Yosys connects pin D of a carry cell with."""


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
    for most, pin in product((2, 3), "AB"):
        name = free.get(pins[pin + place][0])
        if name is None or pins["D" + place] != [_USUAL]:
            continue
        inputs = {bits[0]: p for p, bits in _inputs(cells[name]) if isinstance(bits[0], int)}
        if not 1 <= len(inputs) <= most:
            continue
        # Pin D last: its usual value leaves the table's lower half to the carry.
        rest = [p for p in "CD" if not isinstance(pins[p + place][0], int)]
        for order in permutations(inputs):
            if len(order) > 1 + len(rest):
                break
            moved = dict(zip((pin, *rest), order, strict=False))
            init = _joined(cell, place, pin, cells[name], moved)
            if init is not None:
                cell["parameters"]["INIT" + place] = init
                pins |= {p + place: [bit] for p, bit in moved.items()}
                taken.append(name)
                break
    return taken


def _inputs(table: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    yield from ((p, table["connections"][p]) for p in _PINS)


def _joined(
    cell: dict[str, Any], place: str, pin: str, table: dict[str, Any], moved: dict[str, int]
) -> str | None:
    """The contents of a place that works out `table` on the way to `pin`, if there are any.

    moved : pins that get another connection, and which.

    A place passes the carry on, or makes one. A and B alone must tell which one it makes: the cell
    reads that from the same contents, at 0 for C and D.
    """
    before = {p: cell["connections"][p + place][0] for p in _PINS}
    after = before | moved
    init = cell["parameters"]["INIT" + place]
    contents = [0] * 16
    makes: dict[tuple[int, int], int] = {}
    for a, b, c, d in product((0, 1), repeat=4):
        now = dict(zip(_PINS, (a, b, c, d), strict=True))
        if any(_level(after[p], now[p]) != now[p] for p in _PINS):
            continue
        inner = _value(table, {bit: now[p] for p, bit in moved.items()})
        was = {p: _level(before[p], now[p]) for p in _PINS}
        was[pin] = inner
        passes = contents[_place(now)] = _bit(init, _place(was))
        made = _bit(init, _place({"A": was["A"], "B": was["B"]}))
        if not passes and makes.setdefault((a, b), made) != made:
            return None
    for (a, b), made in makes.items():
        at = _place({"A": a, "B": b})
        if after["D"] == _USUAL:
            contents[at] = contents[at + 4] = made
        elif contents[at] != made:
            return None
    return "".join(str(bit) for bit in reversed(contents))


def _level(bit: Any, value: int) -> int:
    """`value`, if the bit is no constant. Undefined ones are 0."""
    return value if isinstance(bit, int) else int(bit == "1")


def _place(values: dict[str, int]) -> int:
    return sum(values[pin] << number for number, pin in enumerate(_PINS) if pin in values)


def _value(table: dict[str, Any], values: dict[int, int]) -> int:
    """A table's output, for `values` of what it is connected with."""
    pins = {p: _level(bits[0], values.get(bits[0], 0)) for p, bits in _inputs(table)}
    return _bit(table["parameters"]["INIT"], _place(pins))


def _bit(init: str, place: int) -> int:
    """Yosys writes the highest one first."""
    return int(init[-1 - place] == "1")

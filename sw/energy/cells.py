"""What a Liberty library says of the energy of its cells."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sw.synth.errors import SynthError
from sw.synth.liberty import Group
from sw.synth.library import EDGES, Library
from sw.synth.lookup import Numbers, Table, TableReader, unit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnergy:
    """A cell's energy. leakage_nw: mean over its states.

    outputs: of each output, tables of picojoules for a change of it, over load. clock_pj: for a
    cycle of the clock pin, both edges. Inputs that change without the output are not counted.
    """

    leakage_nw: float
    outputs: dict[str, tuple[Table, ...]]
    clock_pj: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyLibrary:
    """Cells by name, and the supply. has_tables: whether there are energies within cells."""

    volt: float
    cells: dict[str, CellEnergy]
    has_tables: bool


def read_energies(tree: Group, library: Library) -> EnergyLibrary:
    """The energies of a parsed library; `SynthError` if it does not say its voltage."""
    reader = TableReader(tree)
    volt = tree.number("nom_voltage", 0.0) * reader.volt
    if volt <= 0:
        raise SynthError(
            f"library {tree.name}: nom_voltage is {volt:g}; energy is capacitance times its square"
        )
    leakage = unit_of(tree, "leakage_power_unit", "1nW", "W")
    default = tree.number("default_cell_leakage_power", 0.0)
    found = {
        group.name: CellEnergy(
            leakage_nw=_leakage(group, default) * leakage,
            outputs={
                pin.name: tuple(_tables(pin, reader))
                for pin in group.all("pin")
                if pin.text("direction") == "output"
            },
            clock_pj=_clock(group, library.cells[group.name].clock, reader, library.fo4_slew_ns),
        )
        for group in tree.all("cell")
    }
    some = any(any(cell.outputs.values()) for cell in found.values())
    return EnergyLibrary(volt=volt, cells=found, has_tables=some)


def _leakage(group: Group, default: float) -> float:
    states = [g.number("value", 0.0) for g in group.all("leakage_power")]
    return group.number("cell_leakage_power", float(np.mean(states)) if states else default)


def _tables(pin: Group, reader: TableReader) -> Iterator[Table]:
    """All tables of a pin but those of edges that cannot be, which are scalars."""
    for power in pin.all("internal_power"):
        for group in power.groups:
            if group.kind in [f"{edge}_power" for edge in EDGES] and group.name != "scalar":
                table = reader.energy(group)
                if table is not None:
                    yield table


def _clock(group: Group, clock: str, reader: TableReader, slew: float) -> float:
    """Both edges of the clock, mean over the states that the library tells apart."""
    for pin in group.all("pin"):
        if clock and pin.name == clock:
            energies = [at_slew(table, slew)[1].mean() for table in _tables(pin, reader)]
            return 2 * float(np.mean(energies)) if energies else 0.0
    return 0.0


def at_slew(table: Table, slew: float) -> tuple[Numbers, Numbers]:
    """Loads and values of a table at a transition; what does not depend on load has one load."""
    loads = table.loads if len(table.loads) else np.zeros(1)
    if len(table.slews) < 2:
        return loads, table.values[0]
    columns = [np.interp(slew, table.slews, column) for column in table.values.T]
    return loads, np.array(columns)


def change_energy(tables: tuple[Table, ...], slew: float, loads: Numbers) -> Numbers:
    """Picojoules of a change of an output by its load, mean over edges and inputs."""
    if not tables:
        return np.zeros(len(loads))
    total = sum(np.interp(loads, *at_slew(table, slew)) for table in tables)
    result: Numbers = np.asarray(total / len(tables))
    return result

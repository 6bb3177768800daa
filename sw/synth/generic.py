"""A library of cells that stands for no process: figures without a PDK, by logical effort.

Area: a cell is a row of transistor pairs, and one column more keeps it from its neighbour. A NAND2
has two pairs, so three columns: one gate equivalent. A flip-flop has twelve pairs in four rows
that do not touch: 16 columns.

Delay: τ · (p + g · load / input), with the efforts of Sutherland, Sproull and Harris, *Logical
Effort* (1999): p is the delay of the unloaded gate, g how much worse it drives than an inverter of
the same input capacitance. One fan-out of four is 5 τ. The transition at an output is twice the
load's part of the delay, and delays do not depend on it.

τ is 5 ps, so that FO4 is 25 ps, which is about what open 45 nm cells have. It only fixes the unit.

A clock gate is a latch and an AND2: half of a flip-flop and 5 columns.

Energy: a gate's parasitic delay is that of charging its own drains, which are so many inverter
inputs: a change of its output takes half of their capacitance times the square of the supply, 1 V,
beside what its load takes. Four inverters of a flip-flop follow the clock, two of a clock gate. A
column leaks 1 nW.
"""

from dataclasses import dataclass
from itertools import product

from sw.synth.boolean import truth_table

TAU_PS = 5.0
INVERTER_FF = 1.0
"""Input capacitance of the smallest inverter."""


@dataclass(frozen=True, slots=True)
class GenericCell:
    """columns: of the layout. effort: g of each input; parasitic: p; drive: of the output stage.

    A cell of two stages (AND2, buffers) has the first stage's delay in p and g counted from input.
    """

    name: str
    inputs: str
    function: str
    columns: int
    effort: float
    parasitic: float
    drive: int = 1


CELLS = (
    GenericCell("INV_X1", "A", "!A", 2, 1.0, 1.0),
    GenericCell("INV_X2", "A", "!A", 3, 1.0, 1.0, 2),
    GenericCell("INV_X4", "A", "!A", 5, 1.0, 1.0, 4),
    GenericCell("NAND2_X1", "A B", "!(A & B)", 3, 4 / 3, 2.0),
    GenericCell("NAND2_X2", "A B", "!(A & B)", 5, 4 / 3, 2.0, 2),
    GenericCell("NAND3_X1", "A B C", "!(A & B & C)", 4, 5 / 3, 3.0),
    GenericCell("NAND4_X1", "A B C D", "!(A & B & C & D)", 5, 2.0, 4.0),
    GenericCell("NOR2_X1", "A B", "!(A | B)", 3, 5 / 3, 2.0),
    GenericCell("NOR2_X2", "A B", "!(A | B)", 5, 5 / 3, 2.0, 2),
    GenericCell("NOR3_X1", "A B C", "!(A | B | C)", 4, 7 / 3, 3.0),
    GenericCell("AOI21_X1", "A B C", "!((A & B) | C)", 4, 2.0, 7 / 3),
    GenericCell("OAI21_X1", "A B C", "!((A | B) & C)", 4, 2.0, 7 / 3),
    GenericCell("AOI22_X1", "A B C D", "!((A & B) | (C & D))", 5, 2.0, 4.0),
    GenericCell("OAI22_X1", "A B C D", "!((A | B) & (C | D))", 5, 2.0, 4.0),
    GenericCell("XOR2_X1", "A B", "A ^ B", 6, 4.0, 4.0),
    GenericCell("XNOR2_X1", "A B", "!(A ^ B)", 6, 4.0, 4.0),
    GenericCell("MUX2_X1", "A B S", "(A & !S) | (B & S)", 7, 2.0, 4.0),
    # Two inverters, the second 2, 4 or 8 times as large: the first one's delay is in p.
    GenericCell("BUF_X2", "A", "A", 4, 1.0, 4.0, 2),
    GenericCell("BUF_X4", "A", "A", 7, 1.0, 4.0, 4),
    GenericCell("BUF_X8", "A", "A", 12, 1.0, 4.0, 8),
)
FLIP_FLOP_COLUMNS = 16
FLIP_FLOP_PARASITIC = 8.0
"""Clock to output without a load: two transmission gates and two inverters, in τ."""
SETUP_TAU = 6.0
CLOCKED_INVERTERS = 4
"""Their inputs and outputs change at every edge: half of two capacitances each."""

CLOCK_GATE_COLUMNS = 13
CLOCK_GATE_DRIVE = 4
CLOCK_GATE_CLOCKED_INVERTERS = 2

_LOADS_FF = (0.0, 1000.0)


def generic_library() -> str:
    """The Liberty text of these cells and a flip-flop with a rising clock edge."""
    cells = "".join(map(_cell, CELLS))
    return f"""/* Cells of no process, by logical effort. Area: NAND2 equivalents.
   One FO4 is {5 * TAU_PS:g} ps. */
library (systola_generic) {{
  delay_model : table_lookup;
  time_unit : "1ps";
  voltage_unit : "1V";
  current_unit : "1mA";
  pulling_resistance_unit : "1kohm";
  leakage_power_unit : "1nW";
  capacitive_load_unit (1, ff);
  nom_process : 1;
  nom_voltage : 1;
  nom_temperature : 25;
  input_threshold_pct_rise : 50;
  input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50;
  output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 20;
  slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80;
  slew_upper_threshold_pct_fall : 80;
  power_lut_template (energy) {{
    variable_1 : input_transition_time;
    variable_2 : total_output_net_capacitance;
    index_1 ("0, 1000");
    index_2 ("{_LOADS_FF[0]:g}, {_LOADS_FF[1]:g}");
  }}
  power_lut_template (edge) {{
    variable_1 : input_transition_time;
    index_1 ("0, 1000");
  }}
  lu_table_template (delay) {{
    variable_1 : input_net_transition;
    variable_2 : total_output_net_capacitance;
    index_1 ("0, 1000");
    index_2 ("{_LOADS_FF[0]:g}, {_LOADS_FF[1]:g}");
  }}
{cells}{_flip_flop()}{_clock_gate()}}}
"""


def _area(columns: int) -> str:
    return f"{columns / 3:.4f}"


def _input_ff(cell: GenericCell) -> float:
    """A gate's inputs are `effort` times those of the inverter of its drive; a buffer's first
    inverter is a quarter of its second one, at least the smallest."""
    if cell.function == "A":
        return INVERTER_FF * max(1.0, cell.drive / 4)
    return INVERTER_FF * cell.effort * cell.drive


def _tables(parasitic: float, drive: int) -> str:
    """Delay p·τ + τ · load / (drive · inverter); the load's part is the same for every gate."""
    slopes = [TAU_PS * load / (drive * INVERTER_FF) for load in _LOADS_FF]
    delays = ", ".join(f"{parasitic * TAU_PS + slope:.3f}" for slope in slopes)
    slews = ", ".join(f"{2 * slope + TAU_PS:.3f}" for slope in slopes)
    return "\n".join(
        f'        {name} (delay) {{ values ("{values}", "{values}"); }}'
        for name, values in (
            ("cell_rise", delays),
            ("cell_fall", delays),
            ("rise_transition", slews),
            ("fall_transition", slews),
        )
    )


def _energy(template: str, fj: float) -> str:
    """A change takes as much at any transition and load, at either edge."""
    row = ", ".join([f"{fj:.4f}"] * 2)
    values = f'"{row}"' if template == "edge" else f'"{row}", "{row}"'
    tables = "".join(
        f"        {edge}_power ({template}) {{ values ({values}); }}\n" for edge in ("rise", "fall")
    )
    return f"      internal_power () {{\n{tables}      }}\n"


def _sense(cell: GenericCell, pin: str) -> str:
    """How the output follows one input, over all values of the others."""
    names = cell.inputs.split()
    at = names.index(pin)
    values = truth_table(cell.function, names)
    rows = dict(zip(product((0, 1), repeat=len(names)), values, strict=True))
    steps = {
        int(value) - int(rows[(*row[:at], 0, *row[at + 1 :])])
        for row, value in rows.items()
        if row[at]
    } - {0}
    if len(steps) != 1:
        return "non_unate"
    return "positive_unate" if steps == {1} else "negative_unate"


def _cell(cell: GenericCell) -> str:
    capacitance = _input_ff(cell)
    pins = cell.inputs.split()
    inputs = "".join(
        f"    pin ({pin}) {{ direction : input; capacitance : {capacitance:.4f}; }}\n"
        for pin in pins
    )
    tables = _tables(cell.parasitic, cell.drive)
    arcs = "".join(
        f"      timing () {{\n        related_pin : {pin};\n"
        f"        timing_sense : {_sense(cell, pin)};\n{tables}\n      }}\n"
        for pin in pins
    )
    return (
        f"  cell ({cell.name}) {{\n    area : {_area(cell.columns)};\n"
        f"    cell_leakage_power : {cell.columns};\n{inputs}"
        f'    pin (Y) {{\n      direction : output;\n      function : "{cell.function}";\n'
        f"{arcs}{_energy('energy', cell.parasitic * cell.drive * INVERTER_FF / 2)}    }}\n  }}\n"
    )


def _setup() -> str:
    return "\n".join(
        f'        {name} (scalar) {{ values ("{SETUP_TAU * TAU_PS:g}"); }}'
        for name in ("rise_constraint", "fall_constraint")
    )


def _clock_gate() -> str:
    """Its output has four times the smallest inverter's drive."""
    drains = _energy("energy", 2 * CLOCK_GATE_DRIVE * INVERTER_FF / 2)
    return f"""  cell (ICG_X{CLOCK_GATE_DRIVE}) {{
    area : {_area(CLOCK_GATE_COLUMNS)};
    clock_gating_integrated_cell : "latch_posedge";
    cell_leakage_power : {CLOCK_GATE_COLUMNS};
    pin (CK) {{
      direction : input;
      clock : true;
      clock_gate_clock_pin : true;
      capacitance : {2 * INVERTER_FF:g};
{_energy("edge", CLOCK_GATE_CLOCKED_INVERTERS * INVERTER_FF)}    }}
    pin (E) {{
      direction : input;
      clock_gate_enable_pin : true;
      capacitance : {2 * INVERTER_FF:g};
      timing () {{
        related_pin : "CK";
        timing_type : setup_rising;
{_setup()}
      }}
    }}
    pin (GCK) {{
      direction : output;
      clock_gate_out_pin : true;
      state_function : "CK & E";
{drains}    }}
  }}
"""


def _flip_flop() -> str:
    return f"""  cell (DFF_X1) {{
    area : {_area(FLIP_FLOP_COLUMNS)};
    cell_leakage_power : {FLIP_FLOP_COLUMNS};
    ff (IQ, IQN) {{ clocked_on : "CK"; next_state : "D"; }}
    pin (CK) {{
      direction : input;
      clock : true;
      capacitance : {2 * INVERTER_FF:g};
{_energy("edge", CLOCKED_INVERTERS * INVERTER_FF)}    }}
    pin (D) {{
      direction : input;
      capacitance : {2 * INVERTER_FF:g};
      timing () {{
        related_pin : "CK";
        timing_type : setup_rising;
{_setup()}
      }}
    }}
    pin (Q) {{
      direction : output;
      function : "IQ";
      timing () {{
        related_pin : "CK";
        timing_type : rising_edge;
        timing_sense : non_unate;
{_tables(FLIP_FLOP_PARASITIC, 1)}
      }}
{_energy("energy", FLIP_FLOP_PARASITIC * INVERTER_FF / 2)}    }}
  }}
"""

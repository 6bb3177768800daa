"""The systolic array's bench, on square and rectangular arrays, as loops and as elements."""

from pathlib import Path

import pytest

import cocotb_tests
from cocotb_tests.harness.bench import run_bench
from hw_gen.blocks.array_element import ArrayShape
from sw.runtime.simulator.generated import RTL
from sw.synth.equivalence import elements_module


def run_elements(folder, rows, cols):
    """The bench on the processing elements."""
    shape = ArrayShape(rows=rows, cols=cols, across=True)
    (folder / "elements.sv").write_text(elements_module(shape, 8))
    run_bench(
        "cocotb_tests.array_bench",
        "elements",
        [folder / "elements.sv"],
        public=Path(cocotb_tests.__file__).parent / "array_ports.vlt",
        env={"SYSTOLA_ROWS": str(rows), "SYSTOLA_COLS": str(cols)},
        at_least=4,
    )


@pytest.mark.rtl
@pytest.mark.parametrize(("rows", "cols"), [(4, 4), (3, 5), (5, 2)])
def test_array_sums_of_random_folds(rows, cols):
    run_bench(
        "cocotb_tests.array_bench",
        "systola_array",
        [RTL / "systola_array.sv"],
        parameters={"ROWS": rows, "COLS": cols},
        env={"SYSTOLA_ROWS": str(rows), "SYSTOLA_COLS": str(cols)},
        at_least=4,
    )


@pytest.mark.rtl
def test_elements_sum_random_folds(tmp_path):
    run_elements(tmp_path, 5, 7)

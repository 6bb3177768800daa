"""The systolic array's bench, on square and rectangular arrays."""

import pytest

from cocotb_tests.harness.bench import run_bench
from sw.runtime.simulator.generated import RTL


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

"""The systolic array's bench, on square and rectangular arrays, as loops and as elements."""

from pathlib import Path

import pytest
from hw_bench import simulate

import cocotb_tests
from cocotb_tests.harness.bench import run_bench
from hw_gen.blocks.array import SystolicArray
from hw_gen.blocks.array_element import ArrayShape
from spec import preset
from sw.runtime.simulator.generated import RTL
from sw.synth.equivalence import elements_module


def environment(rows, cols, weight_rows):
    sizes = {"ROWS": rows, "COLS": cols, "WEIGHT_ROWS": weight_rows}
    return {f"SYSTOLA_{name}": str(size) for name, size in sizes.items()}


def run_elements(folder, rows, cols, weight_rows):
    """The bench on the processing elements."""
    shape = ArrayShape(rows=rows, cols=cols, across=True, weight_rows=weight_rows)
    (folder / "elements.sv").write_text(elements_module(shape, 8))
    run_bench(
        "cocotb_tests.array_bench",
        "elements",
        [folder / "elements.sv"],
        public=Path(cocotb_tests.__file__).parent / "array_ports.vlt",
        env=environment(rows, cols, weight_rows),
        at_least=4,
    )


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("rows", "cols", "weight_rows"), [(4, 4, 1), (3, 5, 1), (5, 2, 1), (5, 3, 2), (6, 9, 4)]
)
def test_array_sums_of_random_folds(rows, cols, weight_rows):
    run_bench(
        "cocotb_tests.array_bench",
        "systola_array",
        [RTL / "systola_array.sv"],
        parameters={"ROWS": rows, "COLS": cols, "WEIGHT_ROWS": weight_rows},
        env=environment(rows, cols, weight_rows),
        at_least=4,
    )


@pytest.mark.rtl
@pytest.mark.parametrize("weight_rows", [1, 2])
def test_elements_sum_random_folds(tmp_path, weight_rows):
    run_elements(tmp_path, 5, 7, weight_rows)


def test_a_soft_reset_goes_through_the_rows_and_leaves_no_weight_behind():
    """Weights are half loaded, and activations on their way, when the array is cleared."""
    config = preset("tiny")
    rows, cols = config.rows, config.cols
    dut = SystolicArray(config)

    def packed(values):
        return sum((v & 0x1FF) << 9 * i for i, v in enumerate(values))

    async def bench(ctx):
        async def cycle(weights=None, act=None, *, swap=0):
            ctx.set(dut.weights.valid, weights is not None)
            ctx.set(dut.weights.data, packed(weights or [0]))
            ctx.set(dut.act, packed(act or [0]))
            ctx.set(dut.swap, swap)
            ctx.set(dut.tag, {"valid": act is not None, "addr": 0, "overwrite": 1, "fires": 0})
            await ctx.tick()

        for n in range(rows):
            await cycle([90 + n] * cols)
        await cycle([70] * cols, [3] * rows, swap=1)
        await cycle([60] * cols, [3] * rows)
        ctx.set(dut.clear, 1)
        for _ in range(8):
            await cycle()
        ctx.set(dut.clear, 0)
        await cycle()
        await cycle([1, -2, 3, -4])
        await cycle(None, [5, 100, 100, 100], swap=1)
        for _ in range(config.cycles_through_array - 1):
            await cycle()
        sums = [ctx.get(dut.sums.word_select(c, 32).as_signed()) for c in range(cols)]
        assert sums == [5, -10, 15, -20]

    simulate(dut, bench)

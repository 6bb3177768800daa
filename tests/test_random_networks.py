"""Random networks on the golden model and on the RTL: see `random_networks.py`."""

import pytest
from random_networks import check, check_on_rtl, random_network, run_seeds

from spec.config import preset
from sw.compiler.errors import CompileError
from sw.runtime.rtl import RtlDevice


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_networks_are_exact(first: int) -> None:
    for seed in range(first, first + 20):
        assert check(seed) > 0


def test_a_seed_makes_the_same_network_and_most_kinds_of_operators() -> None:
    kinds = {op.kind for seed in range(40) for op in random_network(seed).ops}
    assert {"CONV2D", "CONCAT", "SLICE", "MATMUL", "REDUCE_SUM", "SELECT", "TABLE"} <= kinds
    assert str(random_network(7)) == str(random_network(7)) != str(random_network(8))


def test_failures_and_refusals_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    def compare(seed: int) -> int:
        if seed == 1:
            raise CompileError("no such engine")
        assert seed != 2
        return 10

    assert run_seeds(range(4), compare) == 1
    said = capsys.readouterr().out
    assert "seed 1: refused: no such engine" in said and "seed 2: AssertionError" in said
    assert said.endswith("2 networks exact, 1 refused, 1 failed, 20 elements\n")


@pytest.mark.rtl
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_random_networks_on_the_rtl_are_exact(stall: float) -> None:
    with RtlDevice(preset("tiny"), stall=stall) as device:
        for seed in range(8):
            assert check_on_rtl(seed + int(10 * stall), device) > 0

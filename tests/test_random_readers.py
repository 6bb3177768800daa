"""Random networks of tensors with several readers: compiled, they compute what the graph says.

`SYSTOLA_RANDOM=100` runs 100 times as many; `SYSTOLA_RANDOM_FIRST=7` begins at seed 7.
"""

import os

import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs
from random_readers import random_readers

from spec import preset

FIRST = int(os.environ.get("SYSTOLA_RANDOM_FIRST", "0"))
SEEDS = range(FIRST, FIRST + 16 * int(os.environ.get("SYSTOLA_RANDOM", "1")))


@pytest.mark.parametrize("config", ["default", "tiny", "odd"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_networks_of_tensors_with_several_readers(seed: int, config: str) -> None:
    g = random_readers(seed)
    assert_compiles_exactly(g, preset(config), random_inputs(g, seed), on_chip=seed % 4 > 0)

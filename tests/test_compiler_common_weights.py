"""Weights that several products have: loaded once, where their loads would fill the bus."""

from dataclasses import replace

import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs
from recurrent_graphs import random_steps, steps

from spec import preset
from spec.config import PRESETS
from spec.isa import Opcode
from sw.compiler.compilation import Compilation
from sw.compiler.pipeline import run_stages


def loaded_weights(done: Compilation) -> int:
    """Bytes of constants that LOADs bring into the scratchpad: weights, no tables or parameters."""
    loads = [n for n in done.program.instructions if n.opcode is Opcode.LOAD]
    reads = [a for n in loads if "weights" in n.note for a in n.accesses if not a.write]
    return sum(a.stop - a.start for a in reads)


def test_steps_of_a_recurrence_load_their_weights_once() -> None:
    config = preset("default")
    done = run_stages(steps(8, 128), config)
    assert [root for root in done.residency.address if root.startswith("weights ")]
    assert loaded_weights(done) == 128 * 128
    assert_compiles_exactly(steps(8, 128), config, random_inputs(steps(8, 128)))


def test_weights_that_do_not_fit_are_loaded_by_every_step() -> None:
    config = replace(preset("default"), spad_kib=16)
    done = run_stages(steps(4, 128), config)
    assert loaded_weights(done) == 4 * 128 * 128


def test_weights_stay_only_where_their_loads_would_fill_the_bus() -> None:
    """Each step computes 64 × 64 pixels with the weights that it loads in a few cycles."""
    done = run_stages(steps(3, 16, size=64), preset("default"))
    assert not [root for root in done.residency.address if root.startswith("weights ")]


def test_every_tensor_can_be_kept_in_memory() -> None:
    done = run_stages(steps(4, 64), preset("default"), on_chip=False)
    assert not done.residency.address
    assert loaded_weights(done) == 4 * 64 * 64


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("seed", range(4))
def test_random_steps_are_exact(config: str, seed: int) -> None:
    g = random_steps(seed)
    assert_compiles_exactly(g, preset(config), random_inputs(g, seed))


def test_some_random_steps_keep_their_weights() -> None:
    kept = [run_stages(random_steps(seed), preset("default")) for seed in range(4)]
    assert any(name.startswith("weights ") for done in kept for name in done.residency.address)

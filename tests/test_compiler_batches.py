"""Programs of batches: as long as those of few samples, and exact."""

import numpy as np
import pytest
from compiler_graphs import random_inputs

from golden_model import Machine
from spec import preset
from spec.isa import encode_program
from sw.compiler.kernels.places import IN_STEP, Places
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.interpreter import run_graph
from sw.models.kernels import kernel, parse_shape


def compiled(samples: int, config: str):
    shape = f"n={samples},h=14,w=14,c=32,oc=64,k=3,p=1"
    work = kernel("conv2d", parse_shape(shape, "conv2d"), seed=2)
    return work, run_stages(work.graph, preset(config))


def test_the_program_of_a_convolution_does_not_grow_with_the_batch():
    _, one = compiled(4, "tiny")
    _, many = compiled(32, "tiny")
    assert len(encode_program(many.instructions)) > 6 * len(encode_program(one.instructions))
    assert many.image.program.size <= 1.1 * len(encode_program(one.instructions))
    assert sum(many.predicted) <= 8.02 * sum(one.predicted)


@pytest.mark.parametrize("config", ["tiny", "odd"])
def test_batches_are_exact(config):
    shape = "n=7,h=7,w=7,c=24,oc=40,k=3,p=1"
    work = kernel("conv2d", parse_shape(shape, "conv2d"), seed=3)
    image = run_stages(work.graph, preset(config)).image
    inputs = random_inputs(work.graph, 4)
    got = Machine(preset(config)).run(image, inputs)
    for port, want in run_graph(work.graph, inputs).items():
        assert np.array_equal(got[port], want)


def test_places_in_step_come_around_after_a_power_of_two():
    places = Places(lanes=4, lane=512, depth=10, pitch=49)
    assert places.in_step(0).count == IN_STEP
    assert places.in_step(12).count == 16
    assert places.in_step(40) == places
    assert Places(lanes=4, lane=512, depth=1, pitch=448).in_step(0).count == 4

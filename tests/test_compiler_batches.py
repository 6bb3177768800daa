"""Programs of batches: as long as those of few samples, and exact."""

import numpy as np
import pytest
from compiler_graphs import random_inputs

from golden_model import Machine
from spec import NpuConfig, preset
from spec.isa import encode_program
from sw.compiler.kernels.conv.geometry import stacks
from sw.compiler.kernels.places import IN_STEP, Places
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.interpreter import run_graph
from sw.models.catalog import get_model
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


def exact(work_graph, config, inputs):
    done = run_stages(work_graph, config)
    got = Machine(config).run(done.image, inputs)
    for port, want in run_graph(work_graph, inputs).items():
        assert np.array_equal(got[port], want)
    return done


SLOW_WEIGHTS = "giant with a row of weights a cycle"


def made(name: str) -> NpuConfig:
    """A preset, or `SLOW_WEIGHTS`."""
    if name == SLOW_WEIGHTS:
        return preset("giant").with_settings({"weight_rows": "1"})
    return preset(name)


STACKED = (
    ("small", "n=4,h=2,w=3,c=17,oc=9,k=3,p=1", 2),
    ("small", "n=2,h=3,w=1,c=33,oc=17,kh=3,kw=1,p=0,pad_top=1,pad_bottom=1", 2),
    ("default", "n=6,h=4,w=2,c=16,oc=33,k=2,s=2,p=0", 6),
    ("large", "n=3,h=5,w=5,c=64,oc=70,k=3,p=1", 3),
    (SLOW_WEIGHTS, "n=4,h=7,w=7,c=160,oc=130,k=3,p=1", 4),
    (SLOW_WEIGHTS, "n=4,h=14,w=14,c=512,oc=512,k=1,p=0,s=2", 4),
)
"""Convolutions with fewer pixels than rows, and how many samples a tile of them holds."""


@pytest.mark.parametrize(("name", "shape", "samples"), STACKED)
def test_samples_of_few_pixels_share_each_fold(name, shape, samples):
    config = made(name)
    work = kernel("conv2d", parse_shape(shape, "conv2d"), seed=5)
    done = exact(work.graph, config, random_inputs(work.graph, 6))
    assert [plan.stacked for plan in done.plans] == [samples]


def test_a_batch_of_few_pixels_takes_hardly_longer_than_a_sample():
    cycles = []
    for samples in (1, 4):
        shape = f"n={samples},h=7,w=7,c=512,oc=512,k=3,p=1"
        work = kernel("conv2d", parse_shape(shape, "conv2d"), seed=5)
        cycles.append(sum(run_stages(work.graph, made(SLOW_WEIGHTS)).predicted))
    assert cycles[1] < 1.08 * cycles[0]


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        ("n=1,h=7,w=7,c=16,oc=128,k=3,p=1", []),
        ("n=12,h=7,w=7,c=16,oc=128,k=3,p=1", [12, 6, 4, 3, 2]),
        ("n=4,h=12,w=12,c=16,oc=128,k=3,p=1", []),
    ],
)
def test_tiles_hold_whole_parts_of_a_batch_where_pixels_are_few(shape, counts):
    work = kernel("conv2d", parse_shape(shape, "conv2d"), seed=5)
    (layer,) = run_stages(work.graph, preset("giant")).layers.layers
    assert stacks(layer, preset("giant")) == counts


@pytest.mark.parametrize(("samples", "columns"), [(2, 16), (3, 8), (4, 16)])
def test_residual_networks_with_samples_side_by_side_are_exact(samples, columns):
    settings = {"rows": "128", "cols": str(columns), "weight_rows": "1"}
    config = preset("default").with_settings(settings)
    model = get_model("resnet8")
    done = exact(model.imported(samples).graph, config, model.inputs(0, samples))
    assert any(getattr(plan, "stacked", 1) > 1 for plan in done.plans)

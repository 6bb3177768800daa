"""Random kernels are those that the hardware can compute."""

import numpy as np
import pytest

from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.errors import CompileError
from sw.models.kernels import kernel, kernel_names, parse_shape
from sw.models.random_kernels import NEEDS, random_case

SMALL = {
    "conv2d": "h=5,w=5,c=4,oc=5,k=3,p=1", "depthwise_conv2d": "h=5,w=5,c=4,k=3,p=1",
    "matmul": "4x5x6", "fully_connected": "3x8x5", "max_pool2d": "h=6,w=6,c=4",
    "avg_pool2d": "h=6,w=6,c=4", "resize": "h=3,w=3,c=4,factor=2",
    "channel_shuffle": "h=3,w=3,c=8,groups=2",
}  # fmt: skip


def draws(config, count=200):
    rng = np.random.default_rng(1)
    return [random_case(rng, config) for _ in range(count)]


def test_hardware_with_everything_has_the_draws_of_old():
    assert draws(preset("default")) == draws(None)
    assert set(NEEDS) <= {name for name, _ in draws(None)}


def test_hardware_without_a_function_has_none_that_need_it():
    names = {name for name, _ in draws(preset("micro"))}
    assert names == set(kernel_names()) - set(NEEDS)


@pytest.mark.parametrize("name", kernel_names())
def test_the_smallest_hardware_computes_all_others(name):
    graph = kernel(name, parse_shape(SMALL.get(name, ""), name)).graph
    if name not in NEEDS:
        assert compile_graph(graph, preset("micro")).instructions()
        return
    with pytest.raises(CompileError, match=f"has {NEEDS[name]}=False"):
        compile_graph(graph, preset("micro"))

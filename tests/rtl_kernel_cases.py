"""Kernel workloads for tests on RTL: shapes, memories, and one run compared with golden.

Shared by the tests of kernels and of faults: `agree` compiles, runs on both and compares.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from golden_model import Machine
from spec import Image
from spec.isa import Engine
from sw.compiler import compile_graph
from sw.models.kernels import Shape, kernel, parse_shape
from sw.runtime.device import RunResult
from sw.runtime.report import compare
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import run_image

# Each line has dimensions of 1, below, at and just above the sizes of some array.
SHAPES: dict[str, tuple[str, ...]] = {
    "matmul": ("1x1x1", "3x17x65", "17x65x3", "65x1x17", "m=5,k=33,n=17,batch=3"),
    "fully_connected": ("1x65x17", "3x1x65", "17x3x1", "65x17x3"),
    "conv2d": (
        "h=1,w=1,c=1,oc=1,k=1,p=0",
        "h=3,w=17,c=3,oc=17,k=3,p=1",
        "h=17,w=3,c=17,oc=3,kh=1,kw=3,p=0,stride_y=2,stride_x=1",
        "h=7,w=9,c=5,oc=65,k=3,pad_top=0,pad_bottom=2,pad_left=1,pad_right=0,s=2",
        "h=9,w=9,c=1,oc=13,k=5,pad_top=2,pad_bottom=1,pad_left=4,pad_right=0,s=3",
        "h=11,w=8,c=9,oc=7,k=3,dilation_y=2,dilation_x=3,pad_top=2,pad_bottom=1,p=2,s=1",
        "n=2,h=5,w=6,c=65,oc=3,kh=2,kw=1,p=0,pad_bottom=1,dilation_y=3,stride_x=2",
        "n=3,h=4,w=4,c=17,oc=17,k=1,p=0,s=2",
        "h=19,w=10,c=1,oc=17,kh=10,kw=4,s=2,pad_top=4,pad_bottom=5,p=1",
        "n=2,h=9,w=17,c=3,oc=9,k=3,s=4,pad_left=0,p=1",
        "n=4,h=2,w=3,c=17,oc=9,k=3,p=1",
        "n=2,h=3,w=1,c=33,oc=17,kh=3,kw=1,p=0,pad_top=1,pad_bottom=1",
        "n=6,h=4,w=2,c=16,oc=33,k=2,s=2,p=0",
    ),
    "depthwise_conv2d": (
        "h=1,w=1,c=1,k=1,p=0",
        "h=9,w=17,c=17,k=3,p=1",
        "h=7,w=9,c=65,k=3,p=1,s=2",
        "n=2,h=11,w=8,c=5,k=5,p=2,pad_left=0,s=1",
        "h=12,w=10,c=3,multiplier=3,kh=2,kw=4,p=1,s=3",
        "h=11,w=12,c=9,k=3,dilation_y=2,dilation_x=3,p=2",
    ),
    "max_pool2d": (
        "h=1,w=1,c=1,k=1,s=1",
        "h=17,w=3,c=17,k=3,s=2,pad_top=1,pad_left=2",
        "n=2,h=5,w=9,c=65,kh=2,kw=3,stride_y=1,stride_x=3,pad_right=1",
        "h=7,w=7,c=3,k=3,s=1,p=1",
        "h=10,w=9,c=33,k=2,s=2",
        "h=9,w=11,c=20,k=5,s=1,p=2",
        "h=16,w=13,c=9,kh=8,kw=7,stride_y=3,stride_x=2,p=3",
    ),
    "avg_pool2d": (
        "h=1,w=1,c=1,k=1,s=1",
        "h=7,w=7,c=65,k=7,s=1",
        "n=2,h=5,w=9,c=17,kh=3,kw=2,stride_y=1,stride_x=2,pad_top=2,pad_right=1",
        "h=8,w=6,c=3,k=3,s=2,pad_bottom=1,pad_left=1",
    ),
    "resize": ("h=1,w=1,c=1", "h=5,w=7,c=17", "n=2,h=3,w=4,c=3,factor=3"),
    "channel_shuffle": (
        "h=1,w=1,c=1,groups=1",
        "h=5,w=7,c=17,groups=2",
        "h=3,w=9,c=20,in_bits=16",
        "n=2,h=3,w=11,c=3,groups=5,in_bits=32",
        "h=1,w=1,c=37,groups=29",
        "h=1,w=1,c=29,groups=33,in_bits=16",
    ),
    "add": ("h=1,w=1,c=1", "h=3,w=17,c=65", "n=3,h=5,w=1,c=17", "h=17,w=3,c=3"),
    "rescale": (
        "h=1,w=1,c=1",
        "h=3,w=5,c=65,in_bits=32,out_bits=8",
        "h=17,w=3,c=17,in_bits=8,out_bits=32,per_channel=0",
        "n=3,h=1,w=17,c=3,in_bits=32,out_bits=16",
        "h=5,w=7,c=17,in_bits=16,out_bits=8",
    ),
}


@dataclasses.dataclass(frozen=True)
class Memory:
    """How the simulated memory behaves in one run."""

    latency: int
    stall: float
    seed: int

    @classmethod
    def random(cls, rng: np.random.Generator) -> "Memory":
        stall = float(rng.uniform(0, 0.5)) if rng.random() < 0.7 else 0.0
        return cls(int(rng.integers(1, 401)), stall, int(rng.integers(1 << 16)))


QUIET = Memory(latency=100, stall=0.0, seed=0)


def agree(
    device: RtlDevice, name: str, shape: str | Shape, memory: Memory, seed: int = 0
) -> RunResult:
    """Run a kernel on the device and on golden, which checks hazards: equal in every element."""
    full = parse_shape(shape, name) if isinstance(shape, str) else shape
    work = kernel(name, full, seed)
    image = compile_graph(work.graph, device.config, name=name)
    want = Machine(device.config).run(image, work.inputs)
    what = f"{name} {shape} on {device.config.name}, data {seed}, {memory}"
    return same(device, image, work.inputs, want, memory, what)


def same(
    device: RtlDevice,
    image: Image,
    inputs: Mapping[str, np.ndarray],
    want: Mapping[str, np.ndarray],
    memory: Memory | None,
    what: str,
) -> RunResult:
    """The device gives `want`, and its counters account for every cycle of every engine.

    memory: None leaves it as it is. Anything else resets the whole NPU by its reset pin.
    """
    if memory is not None:
        device.set_memory(latency=memory.latency, stall=memory.stall, seed=memory.seed)
    got, result = run_image(image, inputs, device)
    found = compare(want, got)
    assert found.elements > 0, what
    assert found.exact, f"{what}: {found.mismatches} of {found.elements} differ, {found.first}"
    counted = Engine if device.config.engine_counters else ()
    assert set(result.counters) == {e.name.lower() for e in counted}, what
    for engine, row in result.counters.items():
        assert sum(row.values()) == result.cycles, f"{what}: {engine} {row} of {result.cycles}"
    return result

"""Every kernel on the RTL of every preset: golden's bits, and as few cycles as promised.

`SYSTOLA_RANDOM_COUNT=500` runs 500 random shapes per preset instead of a few, and
`SYSTOLA_RANDOM_SEED=7` (or `random`) other ones; a failure names its shape and memory.
"""

import os
import secrets

import numpy as np
import pytest
from compiler_graphs import bottlenecks, inverted_residuals, random_inputs
from rtl_kernel_cases import QUIET, SHAPES, Memory, agree, same

from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.errors import CompileError
from sw.compiler.pipeline import run_stages
from sw.models.catalog import compile_model, get_model
from sw.models.kernels import kernel, kernel_names, parse_shape
from sw.models.random_kernels import NEEDS, random_case
from sw.runtime.golden import GoldenDevice
from sw.runtime.rtl import RtlDevice
from sw.runtime.session import run_image

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]  # with a build on a busy machine

COUNT = int(os.environ.get("SYSTOLA_RANDOM_COUNT", "20"))
SEED = os.environ.get("SYSTOLA_RANDOM_SEED", "2026")
# Its simulator takes two minutes of CPU to build. `make test ARGS="-m 'not slow'"` leaves it out.
LARGE = pytest.param("large", marks=pytest.mark.slow)
EVERY = ("micro", "tiny", "small", "rect", "odd", "default", LARGE)
SLOW_MEMORY = Memory(latency=400, stall=0.3, seed=7)


@pytest.fixture(scope="session")
def device(request):
    """The preset's simulator. pytest keeps the tests of one preset together: it starts once."""
    with RtlDevice(preset(request.param)) as opened:
        yield opened


on = pytest.mark.parametrize


def memories(*key: object) -> np.random.Generator:
    """The same memories for the same test in every process."""
    return np.random.default_rng(list(repr(key).encode()))


def test_every_kernel_has_shapes() -> None:
    assert set(SHAPES) == set(kernel_names())


@on("device", EVERY, indirect=True)
@on("name", SHAPES)
def test_kernels_of_odd_shapes(device: RtlDevice, name: str) -> None:
    rng = memories(device.config.name, name)
    if name in NEEDS and not getattr(device.config, NEEDS[name]):
        with pytest.raises(CompileError, match=f"has {NEEDS[name]}=False"):
            compile_graph(kernel(name, parse_shape(SHAPES[name][0], name)).graph, device.config)
        return
    for seed, shape in enumerate(SHAPES[name]):
        agree(device, name, shape, Memory.random(rng), seed)


@on("device", EVERY, indirect=True)
def test_residual_blocks(device: RtlDevice) -> None:
    """Three engines that feed each other, and sums behind products."""
    graph = inverted_residuals(9, 12, 40, 2)
    image = compile_graph(graph, device.config)
    inputs = random_inputs(graph)
    want = Machine(device.config).run(image, inputs)
    for memory in (QUIET, SLOW_MEMORY):
        same(device, image, inputs, want, memory, f"blocks on {device.config.name}, {memory}")


@on("device", EVERY[1:], indirect=True)
@on(("samples", "size"), [(2, 18), (4, 12)])
def test_parts_of_a_batch_in_turn(device: RtlDevice, samples: int, size: int) -> None:
    """Products of one part under the residual sums of another."""
    config = device.config
    graph = bottlenecks(samples, size, config.rows, 4 * config.cols, 1)
    done = run_stages(graph, config)
    assert done.layers.in_turn
    inputs = random_inputs(graph)
    want = Machine(config).run(done.image, inputs)
    for memory in (QUIET, SLOW_MEMORY):
        same(device, done.image, inputs, want, memory, f"{samples} on {config.name}, {memory}")


@on("device", EVERY, indirect=True)
@pytest.mark.timeout(600 + 10 * COUNT)
def test_random_shapes(device: RtlDevice) -> None:
    seed = secrets.randbits(32) if SEED == "random" else int(SEED)
    print(f"SYSTOLA_RANDOM_SEED={seed} on {device.config.name}")
    rng = np.random.default_rng(seed)
    for index in range(COUNT):
        name, shape = random_case(rng, device.config)
        agree(device, name, shape, Memory.random(rng), index)


@on("device", EVERY, indirect=True)
def test_slow_memory_changes_cycles_and_no_bits(device: RtlDevice) -> None:
    shape = "h=9,w=9,c=17,oc=33,k=3,p=1,s=2"
    fast = agree(device, "conv2d", shape, QUIET)
    slow = agree(device, "conv2d", shape, SLOW_MEMORY)
    assert fast.cycles is not None and slow.cycles is not None
    assert slow.cycles > fast.cycles + 300
    assert agree(device, "conv2d", shape, SLOW_MEMORY).cycles == slow.cycles


@on("device", ["default"], indirect=True)
@on(
    ("name", "shape", "floor", "bound"),
    [
        ("matmul", "128x256x256", 128 * 256 * 256 // 256, 34_200),
        ("matmul", "64x64x64", 64 * 64 * 64 // 256, 1_680),
        # A fold of one vector takes its 16 rows, not 17.
        ("fully_connected", "1x1024x1024", 1024 * 1024 // 16, 69_000),
        # The windows, overlapping, are loaded while the array works on those before.
        ("conv2d", "n=4,h=224,w=224,c=3,oc=32,k=3,s=2,p=1", 4 * 112 * 112 * 4, 208_000),
        ("conv2d", "h=28,w=28,c=64,oc=64,k=3,p=1", 28 * 28 * 64 * 9 * 64 // 256, 118_000),
        ("depthwise_conv2d", "h=56,w=56,c=32,k=3,p=1", 56 * 56 * 2 * 3, 20_600),
        ("depthwise_conv2d", "h=56,w=56,c=48,k=3,p=1,s=2", 28 * 29 * 3 * 3 - 87, 12_000),
        # Both columns of a pair often lie in one bank.
        ("depthwise_conv2d", "h=28,w=28,c=116,k=3,p=1,s=2", 14 * 15 * 8 * 3 - 360, 11_500),
        ("depthwise_conv2d", "h=7,w=7,c=320,k=3,p=1", 49 * 20 * 3 - 280, 3_800),
    ],
)
def test_cycles_of_the_default_configuration(
    device: RtlDevice, name: str, shape: str, floor: int, bound: int
) -> None:
    """Cycles repeat exactly: the bounds are those measured and 3% or less."""
    cycles = agree(device, name, shape, QUIET).cycles
    print(f"{name} {shape}: {cycles} cycles, {floor / cycles:.1%}")
    assert floor < cycles <= bound
    # The array cannot have done the work in the time if something went on computing afterwards.
    assert agree(device, name, shape, QUIET).cycles == cycles


@on("device", ["tiny", "default"], indirect=True)
def test_digits(device: RtlDevice) -> None:
    model = get_model("digits")
    image = compile_model(model, device.config)
    golden = GoldenDevice(device.config)
    rng = memories(device.config.name, "digits")
    right = 0
    for index in range(8):
        inputs = model.inputs(index)
        want, _ = run_image(image, inputs, golden)
        what = f"digits image {index} on {device.config.name}"
        same(device, image, inputs, want, Memory.random(rng), what)
        right += int(model.logits(want).argmax() == model.labels[index])
    assert right >= 7

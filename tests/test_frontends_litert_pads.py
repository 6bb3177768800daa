"""PAD and PADV2 in front of convolutions and pools: which are fused, and LiteRT's own results."""

import numpy as np
import pytest
import torch
from litert_files import LiteRtFile, options, run_litert

import systola
from sw.frontends.litert import load_litert

GRID = (0.02, -5)
EVEN, UNEVEN = ((0, 0), (1, 1), (1, 1), (0, 0)), ((0, 0), (0, 1), (2, 0), (0, 0))


def padded_image(f, grid, pads, value):
    """The result of a PAD (no value), or of a PADV2 with the steps or the real `value`."""
    x = f.input((1, 6, 6, 4), *(("int8", *grid) if grid else ()), name="image")
    shape = [n + sum(p) for n, p in zip((1, 6, 6, 4), pads)]
    made = f.tensor(shape, *(("int8", *grid) if grid else ()))
    reads = [x, f.constant(np.array(pads, np.int32))]
    if value is None:
        f.operator("PAD", reads, [made], options("Pad"))
    else:
        given = np.array([value], np.int8 if grid else np.float32)
        reads.append(f.constant(given, *grid) if grid else f.constant(given))
        f.operator("PADV2", reads, [made], options("PadV2"))
    return made, shape


def file_of(reader, grid=GRID, pads=EVEN, value=None, twice=False, padding=1):
    """A padding and what reads it; twice: the padded image is a result too."""
    f, rng = LiteRtFile(), np.random.default_rng(0)
    image, shape = padded_image(f, grid, pads, value)
    size = [n - 2 for n in shape[1:3]] if padding else shape[1:3]
    out = (1, *size, 8 if reader == "CONV_2D" else shape[3])
    scale = grid if reader == "MAX_POOL_2D" else (0.05, 3)
    y = f.tensor(out, *(("int8", *scale) if grid else ()))
    reads, step = [image], {"strideH": 1, "strideW": 1, "padding": padding}
    if reader == "MAX_POOL_2D":
        made = options("Pool2D", filterHeight=3, filterWidth=3, **step)
    else:
        weights = rng.integers(-127, 128, (8, 3, 3, shape[3]))
        bias = np.zeros(8, np.int32)
        if grid:
            reads += [f.constant(weights.astype(np.int8), 0.01), f.constant(bias, 0.01 * grid[0])]
        else:
            reads += [f.constant(np.float32(weights / 100)), f.constant(np.float32(bias))]
        made = options("Conv2D", **step)
    f.operator(reader, reads, [y], made)
    f.output(y, *([image] if twice else []))
    return f.data()


def steps_of(data):
    """Names of the module's steps, after its results were compared with LiteRT's."""
    model = load_litert(data)
    (port,) = model.inputs
    stored = np.random.default_rng(1).integers(-128, 128, port.shape).astype(port.dtype)
    real = torch.from_numpy(port.to_real(stored))
    made = model.module(real)
    made = made if isinstance(made, tuple) else (made,)
    for result, ours, theirs in zip(model.outputs, made, run_litert(data, [stored])):
        assert ours.shape == theirs.shape
        near = 1 if result.scale else 1e-6 * np.abs(theirs).max()
        apart = result.to_stored(ours.numpy()).astype(float) - theirs.astype(float)
        assert np.abs(apart).max() <= near
        assert len(np.unique(theirs)) > 20
    return [name for name, _ in model.module.named_children()]


FUSED = {
    "conv, zero": {"reader": "CONV_2D"},
    "conv, uneven": {"reader": "CONV_2D", "pads": UNEVEN},
    "conv, a value of zero": {"reader": "CONV_2D", "value": GRID[1]},
    "conv of floats": {"reader": "CONV_2D", "grid": None},
    "pool, the lowest step": {"reader": "MAX_POOL_2D", "value": -128},
    "pool, zero that is the lowest": {"reader": "MAX_POOL_2D", "grid": (0.02, -128)},
    "pool of floats": {"reader": "MAX_POOL_2D", "grid": None, "value": -np.inf},
}
KEPT = {
    "conv, another value": {"reader": "CONV_2D", "value": 7},
    "conv, channels": {"reader": "CONV_2D", "pads": ((0, 0), (1, 1), (1, 1), (0, 1))},
    "conv, read twice": {"reader": "CONV_2D", "twice": True},
    "conv that pads too": {"reader": "CONV_2D", "padding": 0},
    "pool, zero": {"reader": "MAX_POOL_2D"},
    "pool, uneven": {"reader": "MAX_POOL_2D", "pads": UNEVEN, "value": -128},
    "pool of floats, zero": {"reader": "MAX_POOL_2D", "grid": None, "value": 0.0},
}


@pytest.mark.parametrize("name", FUSED)
def test_padding_that_the_reader_can_do_is_fused(name):
    assert steps_of(file_of(**FUSED[name])) == [f"{FUSED[name]['reader'].lower()}_1"]


@pytest.mark.parametrize("name", KEPT)
def test_other_padding_is_an_operator(name):
    assert len(steps_of(file_of(**KEPT[name]))) == 2


@pytest.mark.parametrize("name", ["conv, uneven", "pool, the lowest step"])
def test_the_program_copies_no_padded_image(name):
    model = load_litert(file_of(**FUSED[name]))
    program = systola.compile(model.module, model.example)
    assert "PAD" not in [op.kind for op in program.imported.graph.ops]

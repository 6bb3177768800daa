"""Channels whose weights are next to nothing, with biases that fill the accumulator."""

import numpy as np
import pytest
import torch
from litert_files import LiteRtFile, options, run_litert

import systola
from sw.frontends.litert import load_litert

GRID = (0.02, -5)
SCALES = np.array([0.01, 1e-9, 1e-9, 2e-9], np.float32)
BIASES = np.array([100, -(1 << 31), (1 << 31) - 1, 5], np.int32)


def file_of(kind, seed=0):
    """One layer of four channels: two of them have such biases."""
    f, rng = LiteRtFile(), np.random.default_rng(seed)
    shape = {"FULLY_CONNECTED": (4, 12), "CONV_2D": (4, 3, 3, 4), "DEPTHWISE_CONV_2D": (1, 3, 3, 4)}
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    image, out = ((3, 12), (3, 4)) if kind == "FULLY_CONNECTED" else ((1, 5, 5, 4), (1, 3, 3, 4))
    x = f.input(image, "int8", *GRID)
    weights = f.constant(rng.integers(-127, 128, shape[kind]).astype(np.int8), SCALES, 0, axis)
    bias = f.constant(BIASES, SCALES * np.float32(GRID[0]), 0)
    y = f.tensor(out, "int8", 0.02, 7)
    step = {"strideH": 1, "strideW": 1, "padding": 1}
    made = {
        "CONV_2D": lambda: options("Conv2D", **step),
        "DEPTHWISE_CONV_2D": lambda: options("DepthwiseConv2D", depthMultiplier=1, **step),
        "FULLY_CONNECTED": lambda: options("FullyConnected"),
    }[kind]()
    f.operator(kind, [x, weights, bias], [y], made)
    f.output(y)
    return f.data()


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_biases_that_fill_the_accumulator_are_what_they_stand_for(kind):
    """The sums of the second and third channel are far below a step of the result; the first and
    the fourth are LiteRT's.
    """
    data = file_of(kind)
    model = load_litert(data)
    program = systola.compile(model.module, model.example)
    (port,), (result,) = model.inputs, model.outputs
    stored = np.random.default_rng(1).integers(-128, 128, port.shape).astype(np.int8)
    real = torch.from_numpy(port.to_real(stored))
    (found,) = program.outputs(systola.run(program.image, program.inputs(real), device="golden"))
    steps = result.to_stored(found).reshape(-1, 4).astype(int)
    reals = BIASES * SCALES.astype(float) * GRID[0]
    assert (np.abs(steps[:, 1:3] - np.rint(reals[1:3] / 0.02 + 7)) <= 1).all()
    (theirs,) = run_litert(data, [stored])
    ends = np.abs(steps - theirs.reshape(-1, 4))[:, [0, 3]]
    assert ends.max() <= 1 and len(np.unique(steps[:, 0])) > 2


def test_other_channels_keep_their_integers():
    step = next(load_litert(file_of("CONV_2D")).module.children())
    (weight, bias) = step.reads[1:]
    assert weight.quantization.scale[0] == float(SCALES[0]) and bias.data[0] == 100
    assert bias.quantization.scale[3] == float(SCALES[3] * np.float32(GRID[0]))
    assert np.abs(bias.data.astype(np.int64)).max() <= 1 << 30

"""LiteRT networks the whole way: file, module, the one importer, the golden model."""

import numpy as np
import pytest
import torch
from litert_cases import CASES, int8_model
from litert_files import LiteRtFile, options, run_litert
from litert_networks import cnn, excited, residual, with_float_ends

import systola
from sw.frontends.litert import load_litert

RUNS = 8


def compared(data, compare_eager=True):
    """(program, steps apart from LiteRT's of the NPU and of the module, for all results)."""
    model = load_litert(data)
    program = systola.compile(model.module, model.example)
    (port,), (result,) = model.inputs, model.outputs
    rng, npu, eager = np.random.default_rng(0), [], []
    low, high = np.iinfo(port.dtype).min, np.iinfo(port.dtype).max
    for _ in range(RUNS):
        x = rng.integers(low, high + 1, port.shape).astype(port.dtype)
        real = torch.from_numpy(port.to_real(x))
        (theirs,) = run_litert(data, [x])
        run = systola.run(program.image, program.inputs(real), device="golden")
        (made,) = program.outputs(run)
        npu.append(result.to_stored(made).astype(int) - theirs)
        eager.append(result.to_stored(model.module(real).numpy()).astype(int) - theirs)
    return program, np.abs(npu), np.abs(eager)


def kinds(program):
    return [op.kind for op in program.imported.graph.ops]


def test_a_cnn_is_bit_exact():
    """Measured: none of 80 values differs, on the NPU or in PyTorch."""
    program, npu, eager = compared(cnn())
    assert program.imported.policy == "pt2e"
    assert program.imported.reason == "the model brings its own scales"
    assert npu.max() == 0 and eager.max() == 0


def test_permutations_become_layouts():
    """One RESCALE after each product, and nothing between: no TRANSPOSE, no copy."""
    model = load_litert(cnn())
    made = kinds(systola.compile(model.module, model.example))
    assert made == [
        *("CONV2D", "RESCALE", "CONV2D", "RESCALE", "MAX_POOL2D"),
        *("CONV2D", "RESCALE", "RESHAPE", "CONV2D", "RESCALE"),
    ]
    (source,) = systola.compile(model.module, model.example).imported.inputs
    assert source.layout.memory_shape == (1, 16, 16, 3)


def test_padding_parts_and_weighted_channels():
    """Measured: 5 of 80 values differ by one step on the NPU, 3 in PyTorch."""
    program, npu, eager = compared(excited())
    assert npu.max() <= 1 and eager.max() <= 1
    product = ("RESCALE", "RESCALE", "CAST", "CAST", "MUL", "RESCALE")
    assert kinds(program) == [
        *("CONV2D", "RESCALE", "CONV2D", "RESCALE", "CONV2D", "RESCALE", "CONCAT"),
        *("AVG_POOL2D", "CONV2D", "RESCALE", "TABLE", *product, "RESHAPE", "CONV2D", "RESCALE"),
    ]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_inverted_residuals(dtype):
    """Measured over 20 runs: 1 of 240 values differs by one step on the NPU, 25 in PyTorch, which
    rounds the halves of the sums to even.
    """
    data = residual(dtype)
    program, npu, eager = compared(data)
    assert npu.max() <= 1 and eager.max() <= 1
    assert "TRANSPOSE" not in kinds(program)


def test_the_program_takes_the_file_s_own_integers():
    model = load_litert(cnn())
    program = systola.compile(model.module, model.example)
    (port,), (result,) = program.imported.inputs, program.imported.outputs
    (given,), (made,) = model.inputs, model.outputs
    assert (port.dtype, port.zero_point) == ("int8", given.zero_point)
    assert (result.dtype, result.zero_point) == ("int8", made.zero_point)
    assert port.scale == pytest.approx(given.scale) and result.scale == pytest.approx(made.scale)
    x = np.random.default_rng(0).integers(-128, 128, given.shape).astype(np.int8)
    packed = program.inputs(torch.from_numpy(given.to_real(x)))
    assert (packed[port.name].reshape(given.shape) == x).all()


def test_quantize_and_dequantize_at_the_ends_become_ports():
    data = with_float_ends()
    model = load_litert(data)
    program = systola.compile(model.module, model.example)
    (source,), (result,) = program.imported.inputs, program.imported.outputs
    assert (source.dtype, result.dtype) == ("int8", "int8")
    assert [(p.dtype, p.scale) for p in (*model.inputs, *model.outputs)] == [("float32", 0.0)] * 2
    run = systola.run(program.image, program.inputs(*model.example), device="golden")
    (theirs,) = run_litert(data, [model.example[0].numpy()])
    assert np.abs(program.outputs(run)[0] - theirs).max() <= 1.01 * result.scale


def test_a_float_model_is_calibrated():
    """The importer quantizes it as any other float model: PCC, not steps."""
    rng, f = np.random.default_rng(0), LiteRtFile()
    x, y, z = f.input((1, 8, 8, 3)), f.tensor((1, 4, 4, 8)), f.tensor((1, 8))
    w = f.constant(rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32))
    b = f.constant(rng.normal(0, 0.3, 8).astype(np.float32))
    made = options("Conv2D", padding=0, strideH=2, strideW=2, fusedActivationFunction=1)
    f.operator("CONV_2D", [x, w, b], [y], made)
    f.operator("MEAN", [y, f.ints(1, 2)], [z], options("Reducer"))
    f.output(z)
    model = load_litert(f.data())
    program = systola.compile(model.module, model.example)
    (theirs,) = run_litert(f.data(), [model.example[0].numpy()])
    run = systola.run(program.image, program.inputs(*model.example), device="golden")
    (ours,) = program.outputs(run)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.999
    assert program.imported.policy == "pt2e"
    assert program.imported.reason == "every operator has an int8 form in PT2E"


ON_THE_NPU = (
    *("CONV_2D", "TRANSPOSE_CONV", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "SUB", "MUL", "TANH"),
    *("LEAKY_RELU", "SOFTMAX", "SUM", "ARG_MAX", "CONCATENATION", "STRIDED_SLICE", "PADV2"),
)
"""A sample: all but DIV of 149 int8 calls were compiled and run once, each within one step."""


@pytest.mark.parametrize("kind", ON_THE_NPU)
def test_int8_operators_on_the_golden_model(kind):
    case = next(c for c in CASES if c.kind == kind)
    made = int8_model(case)
    model = load_litert(made.data)
    reals = [torch.from_numpy(p.to_real(a)) for p, a in zip(model.inputs, made.arrays)]
    program = systola.compile(model.module, reals)
    run = systola.run(program.image, program.inputs(*reals), device="golden")
    theirs = run_litert(made.data, made.arrays)
    for port, ours, wanted in zip(model.outputs, program.outputs(run), theirs):
        assert np.abs(port.to_stored(ours).astype(int) - wanted.astype(int)).max() <= 1


def test_errors_of_the_importer_name_the_operator():
    f = LiteRtFile()
    x, y, z = f.input((2, 4)), f.input((2, 4)), f.tensor((2, 4))
    f.operator("ADD", [x, y], [z], options("Add"))
    f.operator("FLOOR_DIV", [z, y], [f.tensor((2, 4))], options("FloorDiv"))
    f.output(3)
    model = load_litert(f.data())
    with pytest.raises(systola.CompileError, match=r"at module floor_div_1\n"):
        systola.compile(model.module, model.example)

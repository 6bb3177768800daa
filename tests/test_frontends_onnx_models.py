"""Exported and quantized ONNX models: the module and the golden model against ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from onnx_models import array, model, value
from onnx_networks import Residual, exported, quantized, reference, session
from torch import nn

import systola
from sw.compiler.errors import CompileError
from sw.frontends.onnx import load_onnx


class Cnn(nn.Module):
    """Strides, depthwise layers and the functions of mobile networks."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu6(self.depthwise(F.hardswish(self.stem(x))))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.head = nn.Linear(32, 7)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.cell = kind(12, 8, batch_first=True, **options)
        self.head = nn.Linear(16 if options else 8, 3)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class Upsampling(nn.Module):
    """Interpolation of both kinds, a transposed convolution, a concatenation."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(16, 3, 1)
        self.up = nn.ConvTranspose2d(8, 3, 2, stride=2)

    def forward(self, x):
        y = F.silu(self.first(x))
        z = torch.cat([y, F.interpolate(F.max_pool2d(y, 2), scale_factor=2)], 1)
        return F.interpolate(self.last(z), scale_factor=2, mode="bilinear") + self.up(y)


MODELS = {
    "cnn": (Cnn, lambda: torch.randn(1, 3, 16, 16)),
    "transformer": (Transformer, lambda: torch.randint(0, 50, (1, 10))),
    "lstm": (lambda: Recurrent(nn.LSTM, bidirectional=True), lambda: torch.randn(1, 4, 12)),
    "gru": (lambda: Recurrent(nn.GRU), lambda: torch.randn(1, 4, 12)),
    "upsampling": (Upsampling, lambda: torch.randn(1, 3, 8, 8)),
}


@pytest.mark.parametrize("name", MODELS)
def test_exported_models_compute_the_same(name, tmp_path):
    torch.manual_seed(0)
    make, example = MODELS[name]
    x = example()
    exported(make(), x, tmp_path / "net.onnx")
    loaded = load_onnx(tmp_path / "net.onnx")
    wanted = reference(session(tmp_path / "net.onnx"), x.numpy())
    assert np.abs(loaded.module(x).detach().numpy() - wanted).max() < 1e-4


def test_a_float_model_runs_on_the_npu_as_it_does_from_pytorch(tmp_path):
    torch.manual_seed(0)
    module, x = Cnn(), torch.randn(1, 3, 16, 16)
    exported(module, x, tmp_path / "net.onnx")
    loaded = load_onnx(tmp_path / "net.onnx")
    wanted = reference(session(tmp_path / "net.onnx"), x.numpy())
    programs = [systola.compile(m, (x,)) for m in (loaded.module, module)]
    results = [p.outputs(systola.run(p.image, p.inputs(x)))[0] for p in programs]
    assert [port.name for port in programs[0].imported.inputs] == ["x"]
    assert np.abs(results[0] - wanted).max() < 0.01 * np.abs(wanted).max()
    assert np.array_equal(*results)


# Quantized models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def residual(tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "float.onnx"
    torch.manual_seed(0)
    exported(Residual(), torch.randn(1, 3, 8, 8), path)
    return path


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
def test_quantized_models_keep_their_scales(residual, activations, per_channel):
    path, batches = quantized(residual, activations, per_channel)
    loaded, made = load_onnx(path), session(path)
    stored = onnx.load(path).graph.initializer
    program = systola.compile(loaded.module, loaded.example)
    assert program.imported.reason == "the model brings its own scales"
    scales = {
        float(onnx.numpy_helper.to_array(t)) for t in stored if not t.dims and t.data_type == 1
    }
    (port,), (output,) = program.imported.inputs, program.imported.outputs
    assert port.scale in scales and output.scale in scales
    eager, npu = [], []
    for x in batches:
        wanted = reference(made, x) / output.scale
        tensor = torch.from_numpy(x)
        eager.append(np.abs(loaded.module(tensor).detach().numpy() / output.scale - wanted))
        (result,) = program.outputs(systola.run(program.image, program.inputs(tensor)))
        npu.append(np.abs(result / output.scale - wanted))
    steps = np.rint(np.concatenate(npu))
    print(f"{activations}: eager {np.max(eager):.2f}, NPU {(steps > 0).mean():.1%} of {steps.size}")
    assert len(np.unique(np.rint(wanted))) > 20
    assert np.max(eager) < 0.01
    assert steps.max() <= 1
    assert (steps > 0).mean() < 0.1


AVERAGES = {
    "GlobalAveragePool": ({}, 0.001),
    "ReduceMean": ({}, 0.001),
    "AveragePool": ({"kernel_shape": [3, 3], "strides": [2, 2]}, 0.03),
}
"""By operator: its attributes, and which share of its results may round the other way."""


@pytest.mark.parametrize("kind", AVERAGES)
@pytest.mark.parametrize("integers", [np.int8, np.uint8])
def test_an_average_is_rounded_once_to_its_own_scale(kind, integers):
    attributes, other_way = AVERAGES[kind]
    nodes = [
        ("QuantizeLinear", ["x", "fine", "zero"], ["q"]),
        ("DequantizeLinear", ["q", "fine", "zero"], ["f"]),
        (kind, ["f", "axes"] if kind == "ReduceMean" else ["f"], ["m"], attributes),
        ("Reshape", ["m", "flat"], ["r"]),
        ("QuantizeLinear", ["r", "small", "middle"], ["s"]),
        ("DequantizeLinear", ["s", "small", "middle"], ["y"]),
    ]
    scales = [array("fine", 0.031), array("small", 0.0042)]
    zero = 5 if integers is np.int8 else 133
    zeros = [array("zero", zero, integers), array("middle", zero, integers)]
    indices = [array("flat", [1, -1], np.int64), array("axes", [2, 3], np.int64)]
    x = np.random.default_rng(0).standard_normal((1, 512, 7, 7)).astype(np.float32)
    arrays = [*scales, *zeros, *indices[: 1 + (kind == "ReduceMean")]]
    proto = model(nodes, [value("x", x.shape)], [value("y", None)], arrays)
    loaded = load_onnx(proto)
    program = systola.compile(loaded.module, loaded.example)
    (result,) = program.outputs(systola.run(program.image, program.inputs(torch.from_numpy(x))))
    wanted = reference(ort.InferenceSession(proto.SerializeToString()), x)
    steps = np.rint((result - wanted) / np.float32(0.0042))
    print(f"{kind}: {(steps != 0).mean():.2%} of {steps.size}, by {np.abs(steps).max():.0f}")
    assert len(np.unique(wanted)) > 50
    assert np.abs(steps).max() <= 1 and (steps != 0).mean() <= other_way


def test_quantized_operators_compute_what_onnx_says(residual):
    from onnx.reference import ReferenceEvaluator

    path, batches = quantized(residual, "QUInt8", form="QOperator")
    assert "QLinearConv" in [node.op_type for node in onnx.load(path).graph.node]
    loaded, evaluator = load_onnx(path), ReferenceEvaluator(str(path))
    for x in batches[:2]:
        (wanted,) = evaluator.run(None, {"x": x})
        assert np.abs(loaded.module(torch.from_numpy(x)).detach().numpy() - wanted).max() < 1e-5


def test_activations_of_16_bits_are_refused_by_name(residual):
    path, _ = quantized(residual, "QInt16")
    loaded = load_onnx(path)
    with pytest.raises(
        CompileError, match=r"quantize_per_tensor\w*: activations of type torch.int16"
    ):
        systola.compile(loaded.module, loaded.example)


def test_layers_have_the_names_of_onnx(residual):
    nodes = [node.name for node in onnx.load(residual).graph.node if node.op_type == "Conv"]
    loaded = load_onnx(residual)
    program = systola.compile(loaded.module, loaded.example, precision={nodes[0]: "int16"})
    wide = [name for name, layer in program.imported.layers.items() if layer.width == "int16"]
    assert wide == ["conv2d"]
    assert nodes[0] in program.imported.graph.modules.values()


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_uneven_padding_of_convolutions_and_pools(kind, auto_pad):
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)) * 0.3
    same = {"auto_pad": auto_pad, "strides": [2, 2]}
    nodes = [
        ("Conv", ["x", "w"], ["c"], same),
        (kind, ["c"], ["y"], {"kernel_shape": [3, 3], **same}),
    ]
    inputs, outputs = [value("x", (1, 3, 16, 16))], [value("y", (1, 8, 4, 4))]
    proto = model(nodes, inputs, outputs, [array("w", weights)])
    loaded = load_onnx(proto)
    (x,) = loaded.example
    wanted = reference(ort.InferenceSession(proto.SerializeToString()), x.numpy())
    assert np.abs(loaded.module(x).numpy() - wanted).max() < 1e-5
    program = systola.compile(loaded.module, (x,))
    (result,) = program.outputs(systola.run(program.image, program.inputs(x)))
    assert np.abs(result - wanted).max() < 0.02 * np.abs(wanted).max()


WINDOWS = {
    "uneven": ([6, 7], [2, 3], {"strides": [2, 1], "pads": [0, 1, 1, 2], "dilations": [1, 2]}, 18),
    "one dimension": ([9], [3], {"strides": [2], "pads": [1, 0]}, 4),
}
"""By name: sizes of the image and of a window, attributes, how many places a window has."""


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_laid_back_into_an_image(name):
    size, block, attributes, places = WINDOWS[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3 * int(np.prod(block)), places)).astype(np.float32)
    arrays = [array("n", size, np.int64), array("b", block, np.int64)]
    nodes = [("Col2Im", ["x", "n", "b"], ["y"], attributes)]
    proto = model(nodes, [value("x", x.shape)], [value("y", None)], arrays)
    loaded = load_onnx(proto)
    wanted = reference(ort.InferenceSession(proto.SerializeToString()), x)
    assert np.abs(loaded.module(torch.from_numpy(x)).numpy() - wanted).max() < 1e-5
    program = systola.compile(loaded.module, loaded.example)
    assert program.imported.outputs[0].shape == wanted.shape


def test_half_precision_becomes_float32():
    weights = array("w", np.random.default_rng(0).standard_normal((4, 3, 1, 1)), "float16")
    half = onnx.TensorProto.FLOAT16
    inputs, outputs = [value("x", (1, 3, 8, 8), half)], [value("y", None, half)]
    loaded = load_onnx(model([("Conv", ["x", "w"], ["y"])], inputs, outputs, [weights]))
    program = systola.compile(loaded.module, loaded.example)
    assert program.captured.notes == ("converted from float16 to float32",)

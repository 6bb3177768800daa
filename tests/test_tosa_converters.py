"""Files that others write: torch-mlir, and Arm's converter from TFLite, both through tosa-opt."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_model import Quantized, conv_and_add

from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.file import from_flatbuffer, load_tosa
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import run_image
from sw.runtime.verify import run_flatbuffer


def serialize(mlir: Path) -> Path:
    """TOSA MLIR as a flatbuffer of TOSA 1.0, as docs/tosa.md says."""
    out = mlir.with_suffix(".tosa")
    command = [
        Path(sys.executable).with_name("tosa-opt"), mlir,
        "--tosa-convert-integer-type-to-signless",
        "--tosa-attach-target=specification_version=1.0",
        "--tosa-serialize", f"--tosa-flatbuffer-filename={out}", "-o", "/dev/null",
    ]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)
    return out


def device_outputs(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the golden model computes, in the graph's order."""
    config = preset("tiny")
    outputs, _ = run_image(compile_graph(graph, config), inputs, GoldenDevice(config))
    return [outputs[name] for name in graph.outputs]


def test_what_torch_mlir_writes_gives_what_pytorch_computes(tmp_path: Path) -> None:
    import torch
    from torch_mlir import fx

    class Module(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            most = torch.maximum(a + b, a - b)
            return most.permute(0, 2, 1).reshape(4, -1), torch.cat([a, b], 1), a > b

    torch.manual_seed(3)
    a, b = (torch.randint(-(2**20), 2**20, (1, 8, 5), dtype=torch.int32) for _ in range(2))
    module = fx.export_and_import(Module(), a, b, output_type="tosa")
    (tmp_path / "m.mlir").write_text(str(module))
    graph = load_tosa(serialize(tmp_path / "m.mlir"))
    values = dict(zip(graph.inputs, (a.numpy(), b.numpy()), strict=True))
    want = [t.numpy() for t in Module()(a, b)]
    for got, expected in zip(device_outputs(graph, values), want, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_what_the_tflite_converter_writes_gives_the_models_integers(tmp_path: Path) -> None:
    converter = importlib.import_module("tosa_converter_for_tflite")
    rng = np.random.default_rng(0)
    weight = rng.integers(-127, 128, (6, 3, 3, 4)).astype(np.int8)
    bias = rng.integers(-2000, 2000, 6).astype(np.int32)
    scales = [0.001 * (i + 1) for i in range(6)]
    x = Quantized("x", (1, 8, 9, 4), [0.05], -3)
    tensors = [
        x,
        Quantized("w", weight.shape, scales, 0, weight),
        Quantized("b", (6,), [0.05 * s for s in scales], 0, bias),
        Quantized("c", (1, 6, 7, 6), [0.02], -128),
        Quantized("y", (1, 6, 7, 6), [0.04], -128),
    ]
    (tmp_path / "m.tflite").write_bytes(conv_and_add(*tensors))
    converter.tflite_flatbuffer_to_tosa_mlir(
        str(tmp_path / "m.tflite"),
        str(tmp_path / "m.mlir"),
        converter.TosaConverterOutputFormat.Text,
    )
    file = serialize(tmp_path / "m.mlir")
    graph = load_tosa(file)
    value = rng.integers(-128, 128, x.shape).astype(np.int8)
    inputs = {graph.inputs[0]: value}
    (got,) = device_outputs(graph, inputs)
    expected = run_flatbuffer(file.read_bytes(), inputs, graph.outputs)
    np.testing.assert_array_equal(got, expected[graph.outputs[0]])
    # And it is the model: real numbers, half a step of each of the two roundings apart.
    windows = np.lib.stride_tricks.sliding_window_view(value + 3.0, (3, 3), axis=(1, 2))
    sums = np.einsum("nhwcij,oijc->nhwo", windows, weight.astype(float)) + bias
    real = np.maximum(sums * 0.05 * np.array(scales), 0).clip(max=255 * 0.02)
    assert len(np.unique(got)) > 50
    assert np.abs((got + 128.0) * 0.04 - 2 * real).max() <= 0.02 + 0.02 + 1e-6


def _double_round(rng: np.random.Generator, source: str, target: str, channels: int) -> bytes:
    """A RESCALE with DOUBLE_ROUND as the extension has it; some channels shift by 31 or less."""
    ts = importlib.import_module("tosa_serializer")
    out = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
    block = out.currRegion.currBasicBlock
    bits = {"int8": 8, "int16": 16, "int32": 32}
    base = 31 + bits[source] - bits[target]
    shifts = np.clip(rng.integers(base - 3, base + 6, channels) + 3, 26, 50)
    zp = [int(rng.integers(-128, 128)) if kind == "int8" else 0 for kind in (source, target)]
    constants = {
        "multiplier": (rng.integers(1 << 30, (1 << 31) - 1, channels), "int32"),
        "shift": (shifts, "int8"),
        "input_zp": ([zp[0]], source),
        "output_zp": ([zp[1]], target),
    }
    block.addTensor("x", [3, 50, channels], getattr(ts.DType, source.upper()))
    block.addTensor("y", [3, 50, channels], getattr(ts.DType, target.upper()))
    for name, (values, kind) in constants.items():
        data = np.array(values, kind)
        block.addTensor(name, list(data.shape), getattr(ts.DType, kind.upper()), data)
        record = ts.TosaSerializerAttribute()
        record.ConstAttribute()
        block.addOperator(ts.Op.CONST, [], [name], record)
    block.addInput("x")
    record = ts.TosaSerializerAttribute()
    record.RescaleAttribute(True, ts.RoundingMode.DOUBLE_ROUND, channels > 1, False, False)
    block.addOperator(ts.Op.RESCALE, ["x", *constants], ["y"], record)
    block.addOutput("y")
    return bytes(out.serialize())


@pytest.mark.parametrize(
    ("source", "target"),
    [("int32", "int8"), ("int32", "int16"), ("int8", "int8"), ("int16", "int8"), ("int8", "int32")],
)
@pytest.mark.parametrize("channels", [1, 7])
def test_double_rounding_is_exact(source: str, target: str, channels: int) -> None:
    rng = np.random.default_rng([channels, len(source), len(target)])
    data = _double_round(rng, source, target, channels)
    graph = from_flatbuffer(data)
    graph.verify()
    limits = np.iinfo(source)
    low, high = max(limits.min, -(2**24)), min(limits.max, 2**24)
    x = rng.integers(low, high, (3, 50, channels), endpoint=True).astype(source)
    inputs = {"x": x}
    expected = run_flatbuffer(data, inputs, ["y"])["y"]
    np.testing.assert_array_equal(run_graph(graph, inputs)["y"], expected)
    np.testing.assert_array_equal(device_outputs(graph, inputs)[0], expected)

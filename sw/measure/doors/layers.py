"""Each layer of an int8 file by itself: the golden model on the framework's own integers.

A layer is an operator of a LiteRT file, or what lies between the QuantizeLinears of an ONNX file.
It is compiled alone, gets what the framework computed for its operands, and its result is compared
with the framework's, in steps of its grid.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.compiler.frontend.compile_module import compile_module
from sw.frontends.litert.build import build
from sw.frontends.litert.reading import read
from sw.frontends.litert.records import Operator, Tensor
from sw.frontends.onnx import load_onnx
from sw.measure.bench_store import Row
from sw.measure.doors.files import Network, litert_int8, onnx_int8
from sw.measure.doors.programs import Array
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import run_image

IMAGES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer as a module. calls: for each image its operands, float32, and the result.

    scale: the step of the result. overflowing: by channel (last dimension), whether the framework's
    sums overflow there.
    """

    kind: str
    module: torch.nn.Module
    calls: Sequence[tuple[list[Array], Array]]
    scale: float
    overflowing: NDArray[np.bool_] | None = None


def layers(network: Network, form: str, config: NpuConfig) -> Row:
    """Figures by kind of layer: how many, elements, those that differ, and by how many steps."""
    images = network.tests()[:IMAGES]
    kinds: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder:
        for layer in FORMS[form](network, images, Path(folder)):
            for kind, steps in _by_kind(layer, list(_steps(layer, config))).items():
                zero: Row = {"layers": 0, "elements": 0, "apart": 0, "most_steps": 0}
                row = kinds.setdefault(kind, zero)
                row["layers"] += 1
                row["elements"] += steps.size
                row["apart"] += int((steps > 0).sum())
                row["most_steps"] = max(row["most_steps"], int(steps.max()))
    return {"images": len(images), "kinds": kinds}


def _by_kind(layer: Layer, steps: Sequence[Array]) -> dict[str, Array]:
    """All steps of a layer; channels that overflow apart from the others."""
    if layer.overflowing is None:
        return {layer.kind: np.concatenate([s.reshape(-1) for s in steps])}
    rows = np.concatenate([s.reshape(-1, len(layer.overflowing)) for s in steps])
    return {
        layer.kind: rows[:, ~layer.overflowing],
        f"{layer.kind}, channels that overflow": rows[:, layer.overflowing],
    }


def _steps(layer: Layer, config: NpuConfig) -> Iterator[Array]:
    """By how many steps the golden model is away from each result."""
    example = tuple(torch.from_numpy(array) for array in layer.calls[0][0])
    made = compile_module(layer.module, example, config)
    device = GoldenDevice(config, check=False)
    for operands, result in layer.calls:
        arrays, _ = run_image(made.image, made.inputs(*operands), device)
        (found,) = made.outputs(arrays)
        yield np.abs(np.rint((found.reshape(result.shape) - result) / layer.scale))


# LiteRT -------------------------------------------------------------------------------------------


def _litert(network: Network, images: Array, folder: Path) -> Iterator[Layer]:
    """What lies between layers is of LiteRT without XNNPACK, which does not tell it; each result is
    that of LiteRT as it is by default, for a file of this layer alone.
    """
    path = litert_int8(network, folder)
    contents, whole = read(path.read_bytes(), str(path)), _File(path.read_bytes())
    (given,) = contents.inputs
    port = _grid(contents.tensors[given])
    seen = [_all_tensors(path, port.stored(image[None])) for image in images]
    for operator in contents.operators:
        reads, (out,) = _values(operator, contents.tensors), operator.outputs
        part = replace(contents, operators=(operator,), inputs=tuple(reads), outputs=(out,))
        grids = {i: _grid(contents.tensors[i]) for i in (*reads, out)}
        alone = whole.part(operator.number, reads)
        calls = []
        for tensors in seen:
            result = alone([tensors[i] for i in reads])
            calls.append(([grids[i].real(tensors[i]) for i in reads], grids[out].real(result)))
        yield Layer(
            kind=operator.kind, module=build(part), calls=calls, scale=grids[out].scale,
            overflowing=_overflowing(operator, whole, contents.tensors),
        )  # fmt: skip


def _overflowing(
    operator: Operator, whole: "_File", tensors: Sequence[Tensor]
) -> NDArray[np.bool_] | None:
    """The channels to which `sw.frontends.litert.biases` gave another scale; None: none."""
    if operator.inputs[1:2] == tuple(whole.operators[operator.number].inputs[1:2]):
        return None
    given = whole.graph.tensors[whole.operators[operator.number].inputs[1]].quantization.scale
    made = tensors[operator.inputs[1]].quantization
    assert made is not None
    return np.array(made.scale, np.float32) != np.array(given, np.float32)


class _File:
    """A file whose operators can be had as files of their own."""

    def __init__(self, data: bytes) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.model: Any = schema.ModelT.InitFromPackedBuf(data)
        (self.graph,) = self.model.subgraphs
        self.operators = list(self.graph.operators)
        self.model.signatureDefs = []
        for buffer in self.model.buffers:
            if buffer.offset > 1:  # the bytes lie behind the flatbuffer
                end = buffer.offset + buffer.size
                buffer.data = np.frombuffer(data[buffer.offset : end], np.uint8)
                buffer.offset = buffer.size = 0

    def part(self, number: int, reads: Sequence[int]) -> Callable[[list[Array]], Array]:
        """Operator `number`, and the PAD in front of it where it does not read it itself."""
        import flatbuffers
        from ai_edge_litert.interpreter import Interpreter

        operator = self.operators[number]
        wanted = [operator]
        if not set(reads) <= set(operator.inputs):
            wanted = [o for o in self.operators if o.outputs[0] == operator.inputs[0]] + wanted
        self.graph.operators = wanted
        self.graph.inputs, self.graph.outputs = list(reads), list(operator.outputs)
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        made = Interpreter(model_content=bytes(builder.Output()), num_threads=1)
        made.allocate_tensors()

        def run(tensors: list[Array]) -> Array:
            for detail, array in zip(made.get_input_details(), tensors, strict=True):
                made.set_tensor(detail["index"], array)
            made.invoke()
            return np.asarray(made.get_tensor(made.get_output_details()[0]["index"]))

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    scale: float
    zero_point: int

    def real(self, steps: Array) -> Array:
        return np.asarray((steps.astype(np.int32) - self.zero_point) * np.float32(self.scale))

    def stored(self, real: Array) -> Array:
        steps = np.rint(real * np.float32(1 / self.scale)) + self.zero_point
        return np.asarray(np.clip(steps, -128, 127).astype(np.int8))


def _grid(tensor: Tensor) -> _Grid:
    q = tensor.quantization
    assert q is not None
    return _Grid(scale=q.scale[0], zero_point=q.zero_point[0])


def _values(operator: Operator, tensors: Sequence[Tensor]) -> list[int]:
    """The operands that are no constants, each once."""
    found = [i for i in operator.inputs if i >= 0 and tensors[i].data is None]
    return list(dict.fromkeys(found))


def _all_tensors(path: Path, stored: Array) -> dict[int, Array]:
    """What LiteRT computes for every tensor of the file."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(
        str(path), experimental_preserve_all_tensors=True, num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )  # fmt: skip
    made.allocate_tensors()
    made.set_tensor(made.get_input_details()[0]["index"], stored)
    made.invoke()
    details = [d for d in made.get_tensor_details() if d["dtype"] is np.int8]
    return {d["index"]: made.get_tensor(d["index"]) for d in details}


# ONNX ---------------------------------------------------------------------------------------------


def _onnx(network: Network, images: Array, folder: Path) -> Iterator[Layer]:
    """ONNX Runtime computes the graph as it is written."""
    import onnx
    from onnx.utils import Extractor

    model = onnx.shape_inference.infer_shapes(onnx.load(onnx_int8(network, folder)))
    graph = _Quantized(model)
    seen = [_all_values(model, list(graph.restored.values()), image[None]) for image in images]
    extractor = Extractor(model)
    for name in graph.results:
        sources, kind = graph.layer(name)
        result = graph.restored[name]
        part = extractor.extract_model(sources, [result])
        calls = [([values[graph.restored[s]] for s in sources], values[result]) for values in seen]
        module = load_onnx(part).module
        yield Layer(kind=kind, module=module, calls=calls, scale=graph.scale(name))


class _Quantized:
    """A QDQ graph. restored: by each float tensor that is quantized, the one behind its
    DequantizeLinear; results: those of them that layers make.
    """

    def __init__(self, model: Any) -> None:
        nodes = model.graph.node
        self.maker = {out: node for node in nodes for out in node.output}
        self.constants = {t.name: t for t in model.graph.initializer}
        back = {n.input[0]: n.output[0] for n in reversed(nodes) if n.op_type == _RESTORE}
        self.quantizers = {n.input[0]: n for n in nodes if n.op_type == _QUANTIZE}
        self.restored = {
            name: back[n.output[0]] for name, n in self.quantizers.items() if n.output[0] in back
        }
        self.results = [name for name in self.restored if name in self.maker]

    def layer(self, name: str) -> tuple[list[str], str]:
        """(the float tensors whose integers the layer reads, what operators it has)."""
        sources: dict[str, None] = {}
        kinds: list[str] = []
        waiting = [name]
        while waiting:
            node = self.maker.get(waiting.pop())
            if node is None:
                continue
            if node.op_type != _RESTORE:
                kinds.insert(0, node.op_type)
                waiting += node.input
            elif node.input[0] not in self.constants:
                sources[self.maker[node.input[0]].input[0]] = None
        return list(sources), " + ".join(kinds)

    def scale(self, name: str) -> float:
        from onnx import numpy_helper

        return float(numpy_helper.to_array(self.constants[self.quantizers[name].input[1]]))


_QUANTIZE, _RESTORE = "QuantizeLinear", "DequantizeLinear"


def _all_values(model: Any, names: Sequence[str], image: Array) -> dict[str, Array]:
    """What ONNX Runtime computes for these tensors, in the graph as it is written."""
    import onnx
    import onnxruntime as ort

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = ort.InferenceSession(
        copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip(names, made.run(None, {made.get_inputs()[0].name: image}), strict=True))


FORMS: dict[str, Callable[[Network, Array, Path], Iterator[Layer]]] = {
    "ONNX, QDQ": _onnx,
    "LiteRT": _litert,
}
"""By door: the layers of a network's int8 file, with what the framework computes for the images."""

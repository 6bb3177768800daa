"""A quantized model as a file: its TOSA graph, its ports, and named arrays beside them.

One safetensors file: constants as tensors `constant/NAME`, further arrays under their own names,
and a JSON text with operators, tensors and ports in the metadata. Nothing in it is executed, and
reading it needs no PyTorch.
"""

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.image_file import cut, is_whole, shown
from sw.compiler.errors import CompileError, GraphError
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.ports import Imported, ModelPort
from sw.compiler.tosa.graph import DTYPES, Graph, Op, Tensor
from sw.compiler.tosa.table import complete_attributes

FORMAT = "systola-quantized"
VERSION = 1

_CONSTANT = "constant/"


@dataclass(frozen=True, kw_only=True)
class QuantizedModel:
    """What the file holds.

    arrays: anything beside the graph (samples, reference results), by names that do not begin with
    `constant/`. info: JSON-able facts about the model's origin (name, seeds, packages…).
    """

    imported: Imported
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write atomically; `CompileError` where the file cannot be written."""
        from safetensors.numpy import save_file

        graph = self.imported.graph
        tensors = {
            _CONSTANT + name: np.ascontiguousarray(t.data)
            for name, t in graph.tensors.items()
            if t.data is not None
        }
        tensors |= {name: np.ascontiguousarray(a) for name, a in self.arrays.items()}
        meta = {
            "format": FORMAT,
            "version": str(VERSION),
            "graph": json.dumps(_graph_json(graph)),
            "inputs": json.dumps([port_json(p) for p in self.imported.inputs]),
            "outputs": json.dumps([port_json(p) for p in self.imported.outputs]),
            "seen": json.dumps(dict(self.imported.seen)),
            "info": json.dumps(dict(self.info)),
        }
        temporary = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file(tensors, temporary, metadata=meta)
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise CompileError(f"{path}: cannot write: {error.strerror or error}") from None


def load_quantized(path: Path) -> QuantizedModel:
    """Read and check such a file; `CompileError` says what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            meta = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
    except OSError as error:
        raise CompileError(f"{path}: cannot read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise CompileError(
            f"{path}: no quantized model: {error}", hint="write one with `systola quantize`"
        ) from None
    if meta.get("format") != FORMAT:
        raise CompileError(
            f"{path}: format {shown(meta.get('format'))} is not {FORMAT!r}",
            hint="program images run with `systola exec`; models come from `systola quantize`",
        )
    if meta.get("version") != str(VERSION):
        raise CompileError(
            f"{path}: version {cut(meta.get('version'))} of the format, this release reads "
            f"{VERSION}",
            hint="quantize the model again",
        )
    try:
        return _parse(meta, arrays)
    except GraphError as error:
        raise CompileError(f"{path}: malformed graph: {cut(error)}") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise CompileError(f"{path}: malformed: {shown(error)}") from None
    except RecursionError:
        raise CompileError(f"{path}: malformed: its metadata is nested too deep") from None


def _parse(meta: Mapping[str, str], arrays: dict[str, NDArray[Any]]) -> QuantizedModel:
    stored = json.loads(meta["graph"])
    graph = Graph(name=str(stored["name"]))
    for name, shape, dtype, scale, zero_point in stored["tensors"]:
        _require_texts("tensor", name, dtype)
        data = arrays.pop(_CONSTANT + name, None)
        if data is not None:
            data = data.astype(DTYPES[dtype], casting="no", copy=False)
        graph.add_tensor(
            Tensor(
                name=name,
                shape=tuple(shape),
                dtype=dtype,
                data=data,
                scale=float(scale),
                zero_point=int(zero_point),
            )
        )
    for kind, name, inputs, outputs, attributes, source in stored["ops"]:
        _require_texts("operator", kind, name, source, *inputs, *outputs)
        op = Op(kind=kind, name=name, inputs=inputs, outputs=outputs, source=source)
        op.attributes = complete_attributes(op, attributes)
        graph.ops.append(op)
    graph.inputs, graph.outputs = list(stored["inputs"]), list(stored["outputs"])
    graph.modules = {str(op): str(path) for op, path in stored.get("modules", {}).items()}
    graph.verify()
    ports = [tuple(port_of(p) for p in json.loads(meta[k])) for k in ("inputs", "outputs")]
    for names, row in zip((graph.inputs, graph.outputs), ports, strict=True):
        if names != [p.name for p in row]:
            raise ValueError(f"ports {[p.name for p in row]} are not the graph's, {names}")
        for port in row:
            if graph.tensors[port.name].size != math.prod(port.shape):
                raise ValueError(f"port {port.name} has another size than its tensor")
    seen = {
        str(name): (float(low), float(high))
        for name, (low, high) in json.loads(meta.get("seen", "{}")).items()
    }
    imported = Imported(graph=graph, inputs=ports[0], outputs=ports[1], seen=seen)
    info = json.loads(meta["info"])
    _check_info(info)
    _check_samples(imported, arrays)
    return QuantizedModel(imported=imported, arrays=arrays, info=info)


def _require_texts(what: str, *values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{what}: {shown(value)} must be a text")


def _check_info(info: Any) -> None:
    """The facts that readers count with."""
    if not isinstance(info, dict):
        raise ValueError(f"info {shown(info)}: must be an object")
    for key in ("batch", "runs"):
        if not (is_whole(info.get(key, 1)) and info.get(key, 1) > 0):
            raise ValueError(f"info: {key} {shown(info[key])}: must be a whole number from 1")


def _check_samples(imported: Imported, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Samples are there for every input, as many of each, or for none."""
    given = [name for name in arrays if name.startswith("samples/")]
    counts = set()
    for port in imported.inputs if given else ():
        array, tensor = arrays[f"samples/{port.name}"], imported.graph.tensors[port.name]
        if not array.ndim or array.size != len(array) * tensor.size:
            raise ValueError(f"samples of {port.name}: shape {array.shape} is not {tensor.shape}")
        counts.add(len(array))
    if len(counts) > 1:
        raise ValueError(f"different numbers of samples: {sorted(counts)}")


def _graph_json(graph: Graph) -> dict[str, Any]:
    return {
        "name": graph.name,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "tensors": [
            (t.name, t.shape, t.dtype, t.scale, t.zero_point) for t in graph.tensors.values()
        ],
        "ops": [
            (op.kind, op.name, op.inputs, op.outputs, op.attributes, op.source) for op in graph.ops
        ],
        "modules": graph.modules,
    }


def port_json(port: ModelPort) -> dict[str, Any]:
    layout = port.layout
    return {
        "name": port.name,
        "layout": (layout.sizes, layout.groups, layout.order),
        "scale": port.scale,
        "zero_point": port.zero_point,
        "dtype": port.dtype,
    }


def port_of(stored: Mapping[str, Any]) -> ModelPort:
    sizes, groups, order = (tuple(int(v) for v in row) for row in stored["layout"])
    if sum(groups) != len(sizes) or sorted(order) != list(range(len(sizes))):
        raise ValueError(f"layout of port {stored['name']} is no permutation of its factors")
    return ModelPort(
        name=stored["name"],
        layout=Layout(sizes, groups, order),
        scale=float(stored["scale"]),
        zero_point=int(stored["zero_point"]),
        dtype=str(stored.get("dtype", "int8")),
    )

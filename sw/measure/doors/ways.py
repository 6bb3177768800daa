"""The ways through the doors: what each does with the same network, as its users do it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from spec.config import NpuConfig
from sw.compiler.frontend.compile_module import compile_module
from sw.measure.doors.network import (
    DEPTHS,
    calls,
    of_onnxruntime,
    of_torch,
    onnx_file,
    pt2e,
    qdq_file,
    quiet,
)
from sw.measure.doors.programs import (
    Array,
    DoorsError,
    Function,
    Passage,
    Program,
    of_delegates,
    of_module,
    of_parts,
)
from sw.runtime.session import golden_outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What goes through a door: batch calibrates it; folder: for files."""

    module: nn.Module
    batch: Array
    config: NpuConfig
    folder: Path

    @property
    def example(self) -> Array:
        return self.batch[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way through a door. scales: who chose those of the int8 values, or of none yet ("").

    own: what the framework's result is computed by.
    """

    name: str
    scales: str
    own: str
    go: Callable[[Task], Passage]


def _called(program: Program) -> Function:
    """As `systola.run` does it."""
    image = program.image
    return lambda x: program.output(golden_outputs(image, program.inputs(x)))


def _compiled(module: Any, task: Task, own: Function, batch: Array | None = None) -> Passage:
    """`systola.compile` of a module that a door has made. batch: calibrates, if any."""
    given = None if batch is None else calls(batch)
    example = calls(task.example)[0]
    program = of_module(compile_module(module, example, task.config, calibration=given))
    return Passage(program=program, call=_called(program), own=own)


def _torch_export(task: Task) -> Passage:
    return _compiled(task.module, task, of_torch(task.module), task.batch)


def _torch_export_int8(task: Task) -> Passage:
    quantized = pt2e(task.module, task.batch)
    return _compiled(quantized, task, of_torch(quantized))


def _torch_compile(task: Task) -> Passage:
    from sw.torch_backend.entry import ledger

    torch._dynamo.reset()
    before = set(map(id, ledger().graphs()))
    options = {"config": task.config, "calibration": calls(task.batch), "verify": True}
    options["fallback"] = False
    compiled = torch.compile(task.module, backend="systola", options=options)
    call = of_torch(compiled)
    call(task.example)
    graphs = [g for g in ledger().graphs() if id(g) not in before]
    parts = [part for g in graphs for variant in g.variants for part in variant.parts]
    program = of_parts(parts, "torch.compile")
    return Passage(program=program, call=call, own=of_torch(task.module))


def _onnx(task: Task) -> Passage:
    from sw.frontends.onnx import load_onnx

    path = onnx_file(task.module, task.example, task.folder / "float.onnx")
    return _compiled(load_onnx(path).module, task, of_onnxruntime(path), task.batch)


def _onnx_int8(task: Task) -> Passage:
    from sw.frontends.onnx import load_onnx

    source = onnx_file(task.module, task.example, task.folder / "float.onnx")
    path = qdq_file(source, task.batch, task.folder / "int8.onnx")
    return _compiled(load_onnx(path).module, task, of_onnxruntime(path))


def _litert(task: Task) -> Passage:
    from sw.frontends.litert import load_litert
    from sw.measure.doors.converting import litert_file, of_litert

    path = litert_file(task.module, task.batch, task.folder / "int8.tflite")
    model = load_litert(path)
    (source,), (result,) = model.inputs, model.outputs
    return _compiled(model.module, task, of_litert(path, source, result))


def _stablehlo(task: Task, layout: str) -> Passage:
    import jax

    from sw.frontends.stablehlo import load_stablehlo
    from sw.measure.doors.jax_resnet import resnet, weights_of

    inner = task.module.module
    assert isinstance(inner, nn.Module)
    weights = weights_of(inner)
    laid = _nhwc if layout == "NHWC" else np.asarray
    network = jax.jit(lambda x: resnet(weights, x, DEPTHS, layout))
    example = laid(task.example)
    exported = jax.export.export(network)(example)
    model = load_stablehlo(bytes(exported.mlir_module_serialized))
    given = [(torch.from_numpy(laid(image[None])),) for image in task.batch]
    program = of_module(compile_module(model.module, given[0], task.config, calibration=given))
    called = _called(program)
    return Passage(
        program=program,
        prepare=laid,
        call=lambda x: called(laid(x)),
        own=lambda x: np.asarray(network(laid(x))),
    )


def _nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def _executorch(task: Task) -> Passage:
    from executorch.exir import to_edge_transform_and_lower

    from sw.frontends.executorch.partitioner import SystolaPartitioner
    from sw.frontends.executorch.program import load

    quantized = pt2e(task.module, task.batch)
    partitioner = SystolaPartitioner(config=task.config, fallback=False)
    with quiet():
        exported = torch.export.export(quantized, calls(task.example)[0])
        edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
        path = task.folder / "int8.pte"
        path.write_bytes(edge.to_executorch().buffer)
    (report,) = partitioner.reports
    program = of_parts(list(report.variant.parts), "ExecuTorch")
    loaded = load(path)
    stored = loaded.delegates[0].payload.image
    if not np.array_equal(stored.program, program.image.program):
        raise DoorsError("ExecuTorch: the file has another program than the partitioner made")
    return Passage(
        program=program,
        call=lambda x: np.asarray(loaded(torch.from_numpy(x))[0].numpy()),
        own=of_torch(quantized),
    )


def _session(task: Task, int8: bool) -> Passage:
    from sw.frontends.onnxruntime.offloading import offload

    path = onnx_file(task.module, task.example, task.folder / "float.onnx")
    batch = [image[None] for image in task.batch]
    if int8:
        path = qdq_file(path, task.batch, task.folder / "int8.onnx")
        batch = []
    made = offload(
        path, task.example, config=task.config, calibration=batch, verify=True, fallback=False
    )
    session = made.session()
    return Passage(
        program=of_delegates(list(made.delegates), "ONNX Runtime session"),
        call=lambda x: np.asarray(session.run(None, {"images": x})[0]),
        own=of_onnxruntime(path),
    )


def _rows() -> tuple[Way, ...]:
    here, ort, edge = "Systola", "ONNX Runtime", "ai-edge-quantizer"
    return (
        Way(name="torch.export", scales=here, own="PyTorch, float", go=_torch_export),
        Way(name="torch.export, PT2E", scales="PT2E", own="PyTorch, int8", go=_torch_export_int8),
        Way(name="torch.compile", scales=here, own="PyTorch, float", go=_torch_compile),
        Way(name="ONNX", scales=here, own=f"{ort}, float", go=_onnx),
        Way(name="ONNX, QDQ", scales=ort, own=f"{ort}, int8", go=_onnx_int8),
        Way(name="LiteRT", scales=edge, own="LiteRT, int8", go=_litert),
        Way(name="StableHLO", scales=here, own="JAX, float", go=partial(_stablehlo, layout="NCHW")),
        Way(
            name="StableHLO, NHWC", scales=here, own="JAX, float",
            go=partial(_stablehlo, layout="NHWC"),
        ),
        Way(name="ExecuTorch", scales="PT2E", own="PyTorch, int8", go=_executorch),
        Way(
            name="ONNX Runtime session", scales=here, own=f"{ort}, float",
            go=partial(_session, int8=False),
        ),
        Way(
            name="ONNX Runtime session, QDQ", scales=ort, own=f"{ort}, int8",
            go=partial(_session, int8=True),
        ),
    )  # fmt: skip


WAYS = _rows()

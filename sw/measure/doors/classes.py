"""On how many photographs the NPU names the class that the framework's own int8 result names."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from spec.config import NpuConfig
from sw.compiler.frontend.compile_module import compile_module
from sw.frontends.litert import load_litert
from sw.frontends.onnx import load_onnx
from sw.measure.bench_store import Row
from sw.measure.doors.converting import of_litert
from sw.measure.doors.files import Network, litert_int8, onnx_int8
from sw.measure.doors.network import each, of_onnxruntime, of_torch
from sw.measure.doors.programs import Array, Function, Program, of_module
from sw.models.catalog import pcc
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import run_image
from sw.runtime.timing import predicted_cycles

Judges = dict[str, Function]


def _onnx(network: Network, folder: Path) -> tuple[torch.nn.Module, Judges]:
    path = onnx_int8(network, folder)
    judges = {
        "ONNX Runtime": of_onnxruntime(path),
        "ONNX Runtime, saturating products": of_onnxruntime(path, precise=False),
    }
    return load_onnx(path).module, judges


def _litert(network: Network, folder: Path) -> tuple[torch.nn.Module, Judges]:
    path = litert_int8(network, folder)
    model = load_litert(path)
    (source,), (result,) = model.inputs, model.outputs
    judges = {
        "LiteRT": of_litert(path, source, result),
        "LiteRT without XNNPACK": of_litert(path, source, result, delegates=False),
    }
    return model.module, judges


FORMS: dict[str, Callable[[Network, Path], tuple[torch.nn.Module, Judges]]] = {
    "ONNX, QDQ": _onnx,
    "LiteRT": _litert,
}
"""By door: the module of a network's int8 file, and the framework's own ways to compute it."""


def classes(network: Network, form: str, config: NpuConfig) -> Row:
    """Top-1 of the golden model, of the framework and of the float network, on all test images.

    judges: for each of the framework's own ways `equal`, on how many images its class is the NPU's;
    `float`, on how many it is the float network's; and how the logits agree.
    """
    images = network.tests()
    with tempfile.TemporaryDirectory() as folder:
        module, judges = FORMS[form](network, Path(folder))
        example = (torch.from_numpy(images[:1]),)
        program = of_module(compile_module(module, example, config))
        theirs = {name: each(judge, images) for name, judge in judges.items()}
    ours = _golden(program, images)
    exact = each(of_torch(network.make()), images)
    return {
        "images": len(images),
        "predicted_cycles": predicted_cycles(program.image),
        "float": _same(ours, exact),
        "judges": {name: _judged(ours, t, exact, program) for name, t in theirs.items()},
        "classes": [int(c) for c in ours.argmax(1)],
    }


def _golden(program: Program, images: Array) -> Array:
    device = GoldenDevice(program.image.config, check=False)

    def run(x: Array) -> Array:
        return program.output(run_image(program.image, program.inputs(x), device)[0])

    return each(run, images)


def _same(a: Array, b: Array) -> int:
    return int((a.argmax(1) == b.argmax(1)).sum())


def _judged(ours: Array, theirs: Array, exact: Array, program: Program) -> Row:
    steps = np.abs(np.rint((ours - theirs) / program.result.scale))
    return {
        "equal": _same(ours, theirs),
        "float": _same(theirs, exact),
        "pcc": min(pcc(a, b) for a, b in zip(ours, theirs, strict=True)),
        "apart": float((steps > 0).mean()),
        "most_steps": int(steps.max()),
    }

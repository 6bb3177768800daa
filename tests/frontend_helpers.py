"""What the importer's tests share: quantize, import, run on the interpreter, compare in steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from frontend_cases import EXACT_CASES, TIE_CASES
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantizer import Quantizer

import systola
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.importing import import_graph
from sw.compiler.frontend.ports import Imported, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.quantization.quantizer import quantize_graph
from sw.compiler.frontend.threads import one_thread
from sw.compiler.tosa.interpreter import run_graph

CASES = {**EXACT_CASES, **TIE_CASES}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One module through the importer; `off` is |TOSA − PT2E| of the first output, in steps."""

    imported: Imported
    quantized: GraphModule
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    off: np.ndarray

    @property
    def kinds(self) -> list[str]:
        return [op.kind for op in self.imported.graph.ops]


def quantized_module(
    module: torch.nn.Module, tensors: Sequence[torch.Tensor], quantizer: Quantizer | None = None
) -> GraphModule:
    """PT2E's graph of a module, calibrated on `tensors` themselves."""
    with one_thread():
        graph = capture(module.eval(), tensors).graph
        return quantize_graph(graph, [tuple(tensors)], quantizer)


def on_golden(
    module: torch.nn.Module, calls: Sequence[tuple[torch.Tensor, ...]], config: str = "small"
) -> tuple[np.ndarray, np.ndarray]:
    """The last of `calls` on the golden model and in PyTorch; the others calibrate."""
    program = systola.compile(module, calls[0], systola.preset(config), calibration=calls[:-1])
    (got,) = program.outputs(systola.run(program.image, program.inputs(*calls[-1])))
    return got, module(*calls[-1]).detach().numpy()


def run_module(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> Run:
    """Calibrate on `tensors` themselves and run them on both PyTorch's graph and TOSA's."""
    return run_quantized(quantized_module(module, tensors), tensors)


def run_quantized(quantized: GraphModule, tensors: Sequence[torch.Tensor]) -> Run:
    imported = import_graph(quantized, [tuple(tensors)], name="case")
    inputs = pack_inputs(imported, tensors)
    outputs = run_graph(imported.graph, inputs)
    with torch.no_grad(), one_thread():
        expected = torch.utils._pytree.tree_leaves(quantized(*tensors))
    got = unpack_outputs(imported, outputs)
    assert [g.shape for g in got] == [tuple(e.shape) for e in expected]
    steps = [
        np.abs(np.rint((g - e.numpy()) / port.scale)).reshape(-1)
        for g, e, port in zip(got, expected, imported.outputs, strict=True)
    ]
    return Run(
        imported=imported,
        quantized=quantized,
        inputs=inputs,
        outputs=outputs,
        off=np.concatenate(steps),
    )


@cache
def run_case(name: str) -> Run:
    """One case of `frontend_cases`; several test files look at the same run."""
    case = CASES[name]
    torch.manual_seed(1)
    return run_module(case.build(), random_tensors(case.shapes, seed=2))


def random_tensors(shapes: Sequence[Sequence[int]], seed: int = 0) -> list[torch.Tensor]:
    """Normally distributed, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(tuple(s), generator=generator) for s in shapes]


def is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)

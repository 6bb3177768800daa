"""`compile_module`: a PyTorch module to a program image, quantizing it on the way."""

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule

from spec.config import NpuConfig
from spec.program import Image
from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import capture, source_line
from sw.compiler.frontend.ports import Imported, pack_inputs, unpack_outputs
from sw.compiler.frontend.pt2e.importer import import_module

if TYPE_CHECKING:
    from torchao.quantization.pt2e.quantizer import Quantizer

Batch: TypeAlias = torch.Tensor | Sequence[torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModule:
    """A compiled module: its image, the TOSA graph and the PT2E graph that it came from.

    `quantized` is PyTorch's own int8 graph, for comparison.
    """

    image: Image
    imported: Imported
    quantized: GraphModule

    def inputs(self, *tensors: Any) -> dict[str, NDArray[Any]]:
        """Float tensors (the module's arguments in order) as the program's int8 inputs."""
        return pack_inputs(self.imported, tensors)

    def outputs(self, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The program's outputs as float arrays of the module's shapes, in its order."""
        return unpack_outputs(self.imported, arrays)


def compile_module(
    module: torch.nn.Module,
    example_inputs: Sequence[torch.Tensor],
    config: NpuConfig,
    *,
    calibration: Iterable[Batch] | None = None,
    quantizer: "Quantizer | None" = None,
    name: str = "",
    seed: int | None = None,
    dump_after: Sequence[str] = (),
) -> CompiledModule:
    """Compile `module` for inputs shaped like `example_inputs` (float32, batch included).

    A float module is quantized first: `calibration` yields inputs (a tensor, or one per argument;
    whole multiples of the example's batch); without it the example inputs calibrate. A module that
    PT2E has converted already is taken as it is. `seed`, where calibration data is random,
    is recorded in the image together with the number of samples. `CompileError` on anything that
    cannot be captured, quantized or compiled.
    """
    from sw.compiler import compile_graph

    name = name or type(module).__name__
    samples = 0
    if isinstance(module, GraphModule) and is_quantized(module):
        quantized = module
    else:
        quantized, samples = quantize_module(
            module, example_inputs, calibration=calibration, quantizer=quantizer
        )
    imported = import_module(quantized, name=name)
    info = {"calibration_samples": samples, "calibration_seed": seed}
    image = compile_graph(imported.graph, config, name=name, dump_after=dump_after, info=info)
    return CompiledModule(image=image, imported=imported, quantized=quantized)


def is_quantized(module: GraphModule) -> bool:
    """Whether the graph has PT2E's quantize nodes."""
    return any("quantize_per" in str(n.target) for n in module.graph.nodes)


def quantize_module(
    module: torch.nn.Module,
    example_inputs: Sequence[torch.Tensor],
    *,
    calibration: Iterable[Batch] | None = None,
    quantizer: "Quantizer | None" = None,
) -> tuple[GraphModule, int]:
    """(PT2E graph in q/dq form, samples that calibrated it) of a float module."""
    quiet_import()
    from sw.compiler.frontend.quantizer import SystolaQuantizer, quantize

    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        _require_finite(tensor, f"{type(module).__name__}.{name}")
    graph = capture(module, example_inputs)
    seen = 0

    def calibrate(prepared: GraphModule) -> None:
        nonlocal seen
        for batch in [tuple(example_inputs)] if calibration is None else calibration:
            tensors = (batch,) if isinstance(batch, torch.Tensor) else tuple(batch)
            for i, tensor in enumerate(tensors):
                _require_finite(tensor, f"calibration input {i}")
            for part in _chunks(tensors, example_inputs):
                prepared(*part)
                seen += part[0].shape[0] if part[0].dim() else 1
        _check_ranges(prepared)

    with one_thread():
        converted = quantize(graph, quantizer or SystolaQuantizer(), calibrate)
    if not seen:
        raise CompileError(
            "calibration has no samples", hint="yield at least one batch, or pass calibration=None"
        )
    return converted, seen


def _require_finite(tensor: torch.Tensor, what: str) -> None:
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise CompileError(
            f"{what}: {bad} of {tensor.numel()} values are NaN or infinite",
            hint="int8 scales follow from the range of the values, which must be finite",
        )


def _check_ranges(prepared: GraphModule) -> None:
    """`CompileError` where a value in between was NaN or infinite, though no input was."""
    for node in prepared.graph.nodes:
        observer = getattr(prepared, str(node.target), None) if node.op == "call_module" else None
        low, high = (getattr(observer, name, None) for name in ("min_val", "max_val"))
        if not isinstance(low, torch.Tensor) or not isinstance(high, torch.Tensor):
            continue
        # An observer that has seen nothing holds (inf, -inf).
        if bool((low.isnan() | high.isnan() | (low == -torch.inf) | (high == torch.inf)).any()):
            source = node.args[0]
            raise CompileError(
                "calibration: values are NaN or infinite",
                node=source.name,
                source=source_line(source),
                hint="the float model overflows here; calibrate on representative data",
            )


def _chunks(
    tensors: tuple[torch.Tensor, ...], example: Sequence[torch.Tensor]
) -> Iterable[tuple[torch.Tensor, ...]]:
    """Split batches to the size that the graph was exported with."""
    wanted = [tuple(t.shape) for t in example]
    given = [tuple(t.shape) for t in tensors]
    if given == wanted:
        yield tensors
        return
    size = wanted[0][0] if wanted and wanted[0] else 0
    good = (
        len(given) == len(wanted)
        and size > 0
        and all(
            g and w and g[1:] == w[1:] and w[0] == size for g, w in zip(given, wanted, strict=True)
        )
        and len({g[0] for g in given}) == 1
        and given[0][0] % size == 0
    )
    if not good:
        raise CompileError(
            f"calibration inputs have shapes {given}, the example inputs {wanted}",
            hint="give batches that are whole multiples of the example's",
        )
    yield from zip(*(t.split(size) for t in tensors), strict=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: the same sums everywhere, and no waiting for a second core that small
    layers cannot use (30 times faster on a busy machine).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def quiet_import() -> None:
    """Import torchao without its notices about optional GPU libraries."""
    with quiet():
        import torchao.quantization.pt2e  # noqa: F401


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings: for imports that have something to say about what nobody uses here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(level)

"""Calibration data: calls of the size that a graph was captured for, with usable values."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.fx import GraphModule

from spec.errors import SystolaError
from sw.compiler.errors import CompileError

Call = tuple[torch.Tensor, ...]

_BLOCK = 1 << 20
"""Values that are looked at together: weights of gigabytes need no mask of their size."""


def split_calls(
    calls: Iterable[Sequence[torch.Tensor]], example: Sequence[torch.Tensor]
) -> list[Call]:
    """Each call cut to the example's shapes; `CompileError` where that is not possible.

    A call may hold a whole multiple of the example's batch, its first dimension.
    """
    found = [part for call in calls for part in _parts(tuple(call), example)]
    if not found:
        raise CompileError(
            "calibration has no samples", hint="yield at least one batch, or pass calibration=None"
        )
    return found


def _parts(tensors: Call, example: Sequence[torch.Tensor]) -> Iterator[Call]:
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
def runs_on_inputs() -> Iterator[None]:
    """What PyTorch says about a model that it cannot run on the given inputs, as one message."""
    try:
        yield
    except SystolaError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise CompileError(
            f"the model fails on its inputs: {text[0]}",
            hint="run the model itself on the calibration inputs: check their types and values",
        ) from error


def require_finite_parameters(graph: GraphModule, infinite: bool) -> None:
    """`CompileError` for NaN in a parameter or buffer, and for infinities unless `infinite`."""
    for name, tensor in (*graph.named_parameters(), *graph.named_buffers()):
        _require_finite(tensor, name, infinite)


def require_finite_inputs(calls: Iterable[Call], infinite: bool) -> None:
    """The same for the inputs of calls."""
    for call in calls:
        for i, tensor in enumerate(call):
            _require_finite(tensor, f"calibration input {i}", infinite)


def _require_finite(tensor: torch.Tensor, what: str, infinite: bool) -> None:
    if not tensor.is_floating_point():
        return
    bad = 0
    for part in tensor.detach().reshape(-1).split(_BLOCK):
        bad += int((part.isnan() if infinite else ~torch.isfinite(part)).sum())
    if bad:
        kind = "NaN" if infinite else "NaN or infinite"
        raise CompileError(
            f"{what}: {bad} of {tensor.numel()} values are {kind}",
            hint="integer scales follow from the range of the values, which must be finite",
        )

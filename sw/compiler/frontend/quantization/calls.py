"""The tensors of a call as a program's integers, and whether they lie within the calibration.

This file and what it imports need no PyTorch.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.errors import CompileError
from sw.compiler.frontend.ports import Imported, ModelPort, quantize_input, saturated_share
from sw.compiler.tosa.integers import MARGIN, Outgrown, outgrown


class SaturationWarning(UserWarning):
    """Values of a call were cut to the range that was calibrated."""


def pack_inputs(imported: Imported, tensors: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Integers by port name from tensors or arrays in the model's argument order.

    `CompileError` for inputs that the program cannot take; `SaturationWarning` for values far
    outside the calibrated range.
    """
    if len(tensors) != len(imported.inputs):
        raise CompileError(
            f"{len(tensors)} inputs given, the module takes {len(imported.inputs)}: "
            + ", ".join(p.name for p in imported.inputs)
        )
    arrays = [np.asarray(t.detach() if hasattr(t, "detach") else t) for t in tensors]
    pairs = list(zip(imported.inputs, arrays, strict=True))
    packed = {port.name: quantize_input(port, array) for port, array in pairs}
    found = outgrown_integers(imported, packed)
    require_int32(found)
    cut = [saturated_values(port, array) for port, array in pairs if far_outside(port, array)]
    cut += map(unseen_integers, found)
    if cut:
        warnings.warn(
            f"{'; '.join(cut)}. Calibrate with representative inputs",
            SaturationWarning,
            stacklevel=3,
        )
    return packed


def outgrown_integers(
    imported: Imported, packed: Mapping[str, NDArray[Any]]
) -> tuple[Outgrown, ...]:
    """What the integers of a call outgrow. packed: the inputs that are integers, at least."""
    exact = {port.name: packed[port.name] for port in imported.inputs if not port.scale}
    return tuple(outgrown(imported.graph, exact, imported.seen)) if exact else ()


def require_int32(found: Iterable[Outgrown]) -> None:
    """`CompileError` for the first integers that would wrap around."""
    for each in found:
        if each.op is not None:
            raise CompileError(
                f"integers reach {each.largest:.4g} with these inputs, the NPU's end at "
                f"{2**31 - 1:,} (int32)",
                node=each.op.name,
                source=each.op.source,
                hint="give smaller integers, or calibrate with these; --fallback, or "
                "systola.partition, runs such calls on the CPU",
            )


def far_outside(port: ModelPort, array: NDArray[Any]) -> bool:
    """Whether a value lies a tenth of the port's range or more outside it."""
    if not port.scale:
        return False
    low, high = port.ends
    margin = MARGIN * max(-low, high)
    return bool(array.min() < low - margin or array.max() > high + margin)


def saturated_values(port: ModelPort, array: NDArray[Any]) -> str:
    """What a warning says of an input that saturates."""
    low, high = port.ends
    return (
        f"{saturated_share(port, array):.2%} of the values of input {port.name} saturate: they are "
        f"outside the calibrated range {low:.4g}…{high:.4g}, the largest is "
        f"{float(np.abs(array).max()):.4g}"
    )


def unseen_integers(found: Outgrown) -> str:
    """What a warning says of integers that calibration did not see."""
    return (
        f"{found.count / found.of:.2%} of the integers at {found.tensor} are outside the "
        f"calibrated range {found.low:.4g}…{found.high:.4g}, the largest is {found.largest:.4g}: "
        "what is computed from them may saturate"
    )

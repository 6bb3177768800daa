"""From the records of a file to its module: every operator checked, constant ones computed.

Each operator runs once on tensors without data, so that what does not fit is found here and named.
"""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from spec.names import did_you_mean
from sw.frontends.litert.call import Call
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.litert.grids import by_channel, is_quantized, restored, steps_of
from sw.frontends.litert.module import LiteRtModule, Step
from sw.frontends.litert.records import Contents, Operator, Tensor
from sw.frontends.litert.table import ROWS

MOST_ELEMENTS = 1 << 28
"""Of one tensor: what a damaged file asks for is not allocated."""

MOST_MADE = 1 << 25
"""Of an input, which gets example values, or of a constant that is computed."""

_SHAPES = ("SHAPE", "RANK")
"""Operators whose results follow from shapes, which are fixed."""


def build(contents: Contents) -> LiteRtModule:
    """The module of a file. `LiteRtError` names the first operator that cannot be taken."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # PyTorch logs the traces of what becomes a LiteRtError
    try:
        return _Builder(contents).module()
    finally:
        logging.disable(level)


class _Builder:
    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.tensors = list(contents.tensors)
        self.made: dict[int, torch.Tensor] = {}
        self.steps: list[Step] = []
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    def module(self) -> LiteRtModule:
        contents = self.contents
        for index in contents.inputs:
            self._require_size(self.tensors[index], "an input", MOST_MADE)
            with self.mode:
                self.made[index] = _example(self.tensors[index])
        for operator in contents.operators:
            self._add(operator)
        for index in contents.outputs:
            if index not in self.made:
                raise LiteRtError(
                    "an output that does not depend on the inputs", file=contents.file,
                    tensor=self.tensors[index].name, hint="leave it out of the model",
                )  # fmt: skip
        inputs = [self.tensors[i] for i in contents.inputs]
        made = [(self.tensors[i], self.made[i]) for i in contents.outputs]
        outputs = [replace(tensor, shape=tuple(value.shape)) for tensor, value in made]
        return LiteRtModule(self.steps, inputs, outputs)

    def _require_size(self, tensor: Tensor, what: str, most: int) -> None:
        if tensor.elements > most:
            raise LiteRtError(
                f"{what} of shape {list(tensor.shape)}: more than {most:,} elements",
                file=self.contents.file, tensor=tensor.name, hint="make the model smaller",
            )  # fmt: skip

    def _add(self, operator: Operator) -> None:
        row = ROWS.get(operator.kind)
        if row is None:
            raise LiteRtError(
                f"operator {operator.kind} is not taken{did_you_mean(operator.kind, ROWS)}",
                file=self.contents.file, operator=str(operator),
                hint="python -m sw.frontends.litert.operators_table lists those that are",
            )  # fmt: skip
        call = Call(
            file=self.contents.file, operator=operator, options_class=row.options,
            inputs=tuple(None if i < 0 else self.tensors[i] for i in operator.inputs),
            outputs=tuple(self.tensors[i] for i in operator.outputs),
        )  # fmt: skip
        quantized = next((t for t in call.outputs if is_quantized(t)), None)
        if quantized is not None and not row.int8:
            call.fail(
                "this operator is taken in float alone, and the file's result is quantized",
                "convert the model with this operator in float", quantized,
            )  # fmt: skip
        step = Step(self._with_floats(call), row)
        with self.mode:
            results = self._run(step, [self._fake(step, t) for t in step.reads])
        fixed = operator.kind in _SHAPES or all(t is None or t.data is not None for t in step.reads)
        for result, tensor in zip(results, call.outputs, strict=True):
            shape = tuple(result.shape)
            most = MOST_MADE if fixed else MOST_ELEMENTS
            self._require_size(replace(tensor, shape=shape), "a result", most)
            _check_shape(call, shape, tensor)
            self.made[tensor.index] = result
        if fixed:
            self._fold(step)
        else:
            self.steps.append(step)

    def _with_floats(self, call: Call) -> Call:
        """Quantized constants of an operator of floats (weights of "hybrid" models) as floats."""
        if any(is_quantized(t) for t in call.outputs) or call.operator.kind == "DEQUANTIZE":
            return call
        if not any(t and t.data is None and t.dtype == "float32" for t in call.inputs):
            return call
        inputs = [
            self._float(t) if t and t.data is not None and is_quantized(t) else t
            for t in call.inputs
        ]
        return replace(call, inputs=tuple(inputs))

    def _float(self, tensor: Tensor) -> Tensor:
        made = replace(
            tensor, index=len(self.tensors), dtype="float32", quantization=None,
            data=_real(tensor).numpy(),
        )  # fmt: skip
        self.tensors.append(made)
        return made

    def _fake(self, step: Step, tensor: Tensor | None) -> Any:
        if tensor is None:
            return None
        if tensor.data is not None:
            real = np.float32 if is_quantized(tensor) else tensor.data.dtype
            return torch.empty(tensor.shape, dtype=getattr(torch, np.dtype(real).name))
        if tensor.index not in self.made:
            step.call.fail("an operand that no operator before it makes", tensor=tensor)
        return self.made[tensor.index]

    def _run(self, step: Step, values: list[Any]) -> list[torch.Tensor]:
        """The results. Whatever goes wrong in an operator is an error of the file."""
        try:
            return step.run(values)
        except (LiteRtError, MemoryError):
            raise
        except Exception as error:
            first = (str(error).strip().splitlines() or [repr(error)])[0]
            given = ", ".join(f"{t.name!r} {list(t.shape)}" for t in step.call.inputs if t)
            step.call.fail(
                f"operands {given} do not fit: {type(error).__name__}: {first[:200]}",
                "check that LiteRT runs the file",
            )

    def _fold(self, step: Step) -> None:
        """Compute a result that no input reaches; it is a constant from here on."""
        if step.call.operator.kind in _SHAPES:
            values = [None if t is None else self.made.get(t.index) for t in step.reads]
            if values and values[0] is None and step.reads[0] is not None:
                values = [_real(step.reads[0])]
        else:
            values = [None if t is None else _real(t) for t in step.reads]
        results = self._run(step, values)
        for result, tensor in zip(results, step.call.outputs, strict=True):
            data = steps_of(result, tensor) if is_quantized(tensor) else result
            array = np.ascontiguousarray(data.detach().numpy()).reshape(tuple(result.shape))
            self.tensors[tensor.index] = replace(tensor, shape=tuple(result.shape), data=array)
            del self.made[tensor.index]


def _check_shape(call: Call, made: tuple[int, ...], tensor: Tensor) -> None:
    """That a result is what the file says, unless it says that it does not know."""
    if tensor.shape and tensor.is_fixed and made != tensor.shape:
        call.fail(
            f"the file says shape {list(tensor.shape)}, its operands give {list(made)}",
            "convert the model again with fixed shapes", tensor,
        )  # fmt: skip


def _real(tensor: Tensor) -> torch.Tensor:
    """The values of a constant; reals of a quantized one."""
    data = torch.from_numpy(tensor.data)
    q = tensor.quantization
    if not is_quantized(tensor) or q is None:
        return data
    return restored(data, q, *(by_channel(q) if q.axis >= 0 else ()))


def _example(tensor: Tensor) -> torch.Tensor:
    """Zeros as the module takes them."""
    dtype = torch.float32 if is_quantized(tensor) else getattr(torch, tensor.dtype)
    return torch.zeros(tensor.shape, dtype=dtype)

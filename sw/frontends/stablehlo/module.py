"""The PyTorch module of a graph: a submodule for each operation, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row, run


class Step(torch.nn.Module):
    """An operation. numbers: constants that its function takes as such, by position."""

    def __init__(self, call: Call, row: Row, numbers: Mapping[int, Any]) -> None:
        super().__init__()
        self.call, self.row, self.numbers = call, row, dict(numbers)

    @property
    def reads(self) -> list[int]:
        """The values that `forward` takes, in order."""
        return [v for i, v in enumerate(self.call.op.operands) if i not in self.numbers]

    def forward(self, *tensors: T) -> tuple[T, ...]:
        given = iter(tensors)
        count = len(self.call.op.operands)
        args = [self.numbers[i] if i in self.numbers else next(given) for i in range(count)]
        return run(self.call, self.row, args)


class StableHloModule(torch.nn.Module):
    """A function of tensors. Constants are parameters (floats) and buffers."""

    def __init__(
        self,
        steps: Mapping[str, Step],
        constants: Mapping[int, T],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.held = {value: f"constant_{value}" for value in constants}
        for value, tensor in constants.items():
            if tensor.is_floating_point():
                parameter = torch.nn.Parameter(tensor, requires_grad=False)
                self.register_parameter(self.held[value], parameter)
            else:
                self.register_buffer(self.held[value], tensor)
        self.order = list(steps)
        for name, step in steps.items():
            self.add_module(name, step)

    def forward(self, *inputs: T) -> Any:
        values = dict(zip(self.inputs, inputs, strict=True))
        values |= {value: getattr(self, name) for value, name in self.held.items()}
        for name in self.order:
            step = getattr(self, name)
            made = step(*[values[value] for value in step.reads])
            values.update(zip(step.call.op.results, made, strict=True))
        found = tuple(values[value] for value in self.outputs)
        return found[0] if len(found) == 1 else found

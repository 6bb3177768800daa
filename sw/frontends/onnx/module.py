"""The module that an ONNX graph becomes: a submodule for each node that is computed."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor as T
from torch import nn

from sw.frontends.onnx.node import Node


class Step(nn.Module):
    """A node. operands: the name of a value, a constant that the function wants, or None.

    position: of the graph's node that it comes from.
    """

    def __init__(
        self, node: Node, function: Any, operands: Sequence[Any], position: int = 0
    ) -> None:
        super().__init__()
        self.position = position
        self.node, self.function, self.operands = node, function, tuple(operands)

    @property
    def reads(self) -> list[str]:
        """The names of the values that `forward` takes, in order."""
        return [operand for operand in self.operands if isinstance(operand, str)]

    def forward(self, *tensors: T) -> tuple[T, ...]:
        given = iter(tensors)
        args = [next(given) if isinstance(each, str) else each for each in self.operands]
        made = self.function(self.node, *args)
        return made if isinstance(made, tuple) else (made,)


class GraphModule(nn.Module):
    """A graph: its steps in order, and its constants as parameters (floats) and buffers."""

    def __init__(
        self,
        steps: Sequence[Step],
        constants: Mapping[str, T],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.constants = nn.Module()
        self.names: dict[str, str] = {}
        self.order: list[str] = []
        for name, tensor in constants.items():
            self.names[name] = _hold(self.constants, name, tensor)
        for step in steps:
            name = unused_name(self, step.node.name or step.node.outputs[0])
            self.add_module(name, step)
            self.order.append(name)

    def compute(self, inputs: Sequence[T]) -> Any:
        """What the graph's outputs are: a tensor, or a tuple of several."""
        values = dict(zip(self.inputs, inputs, strict=True))
        values |= {name: getattr(self.constants, held) for name, held in self.names.items()}
        for name in self.order:
            step = getattr(self, name)
            made = step(*[values[each] for each in step.reads])
            values.update(zip(step.node.outputs, made, strict=False))
        found = tuple(values[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found


def _hold(holder: nn.Module, name: str, tensor: T) -> str:
    held = unused_name(holder, name)
    if tensor.is_floating_point():
        holder.register_parameter(held, nn.Parameter(tensor, requires_grad=False))
    else:
        holder.register_buffer(held, tensor)
    return held


def unused_name(module: nn.Module, wanted: str) -> str:
    """A name for a part of `module` that reads like ONNX's."""
    base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "unnamed"
    base = f"n{base}" if base[0].isdigit() else base
    name, count = base, 1
    while hasattr(module, name):
        name, count = f"{base}_{count}", count + 1
    return name


def module_class(inputs: Sequence[str]) -> type[GraphModule]:
    """A class whose `forward` has arguments of the inputs' names: ports are called as they are."""

    def forward(self: GraphModule, *args: T) -> Any:
        return self.compute(args)

    taken: list[inspect.Parameter] = [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    holder = nn.Module()
    for wanted in inputs:
        name = unused_name(holder, wanted)
        setattr(holder, name, True)
        taken.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    forward.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return type("OnnxModule", (GraphModule,), {"forward": forward})

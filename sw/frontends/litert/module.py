"""The PyTorch module of a LiteRT file: a submodule for each operator, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sw.frontends.litert.call import Call, nhwc
from sw.frontends.litert.grids import by_channel, is_quantized, restored, settled
from sw.frontends.litert.records import Tensor
from sw.frontends.litert.table import Row


class Step(torch.nn.Module):
    """An operator that runs. Its constants are buffers, integers with their scales if quantized."""

    def __init__(self, call: Call, row: Row) -> None:
        super().__init__()
        self.call, self.row = call, row
        for tensor in self.reads:
            if tensor is not None and tensor.data is not None:
                self._register(tensor)

    @property
    def name(self) -> str:
        """By which errors and layers are called: `conv_2d_3`."""
        return f"{self.call.operator.kind.lower()}_{self.call.operator.number}"

    @property
    def reads(self) -> list[Tensor | None]:
        """The operands that its function is given as tensors."""
        given = self.call.inputs
        if self.row.values is None:
            return list(given)
        return [given[i] if i < len(given) else None for i in self.row.values]

    def run(self, values: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
        """The results, as the tensors of the file hold them."""
        made = self.row.function(self.call, *values)
        results = made if isinstance(made, tuple | list) else [made]
        pairs = zip(results, self.call.outputs, strict=True)
        return [self._settled(result, tensor) for result, tensor in pairs]

    def forward(self, made: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """`run` with what operators before it have made, by tensor."""
        return self.run([self._value(tensor, made) for tensor in self.reads])

    def _settled(self, result: torch.Tensor, tensor: Tensor) -> torch.Tensor:
        """The importer wants the quantize node right behind a convolution, whose accumulator it
        takes, and another one behind the permutation, where a sum looks for its grid.
        """
        result = settled(result, tensor)
        return settled(nhwc(result), tensor) if self.row.image else result

    def _value(self, tensor: Tensor | None, made: Mapping[int, torch.Tensor]) -> Any:
        if tensor is None:
            return None
        if tensor.data is None:
            return made[tensor.index]
        name, q = f"constant_{tensor.index}", tensor.quantization
        data: torch.Tensor = getattr(self, name)
        if not is_quantized(tensor) or q is None:
            return data
        return restored(data, q, *(getattr(self, f"{name}_{part}", None) for part in _PARTS))

    def _register(self, tensor: Tensor) -> None:
        name, q = f"constant_{tensor.index}", tensor.quantization
        self.register_buffer(name, torch.from_numpy(tensor.data))
        if q is not None and q.axis >= 0:
            for part, values in zip(_PARTS, by_channel(q), strict=True):
                self.register_buffer(f"{name}_{part}", values)


_PARTS = ("scales", "zeros")


class LiteRtModule(torch.nn.Module):
    """A function of tensors: floats for what the file quantizes, else of the file's types."""

    def __init__(
        self, steps: Sequence[Step], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        for step in steps:
            self.add_module(step.name, step)

    def forward(self, *inputs: torch.Tensor) -> Any:
        made = {t.index: settled(x, t) for x, t in zip(inputs, self.inputs, strict=True)}
        for step in self.children():
            for result, tensor in zip(step(made), step.call.outputs, strict=True):
                made[tensor.index] = result
        results = [made[tensor.index] for tensor in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)

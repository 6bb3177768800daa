"""The PyTorch module of a LiteRT file: its operators, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sw.frontends.litert.call import Call, nhwc
from sw.frontends.litert.grids import by_channel, is_quantized, restored, settled
from sw.frontends.litert.records import Tensor
from sw.frontends.litert.table import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An operator that runs: its call and its row of the table."""

    call: Call
    row: Row

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

    def _settled(self, result: torch.Tensor, tensor: Tensor) -> torch.Tensor:
        """The importer wants the quantize node right behind a convolution, whose accumulator it
        takes, and another one behind the permutation, where a sum looks for its grid.
        """
        result = settled(result, tensor)
        return settled(nhwc(result), tensor) if self.row.image else result


class LiteRtModule(torch.nn.Module):
    """A function of tensors: floats for what the file quantizes, else of the file's types.

    Constants are buffers; those of quantized operators are integers with their scales.
    """

    def __init__(
        self, steps: Sequence[Step], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        super().__init__()
        self.steps, self.inputs, self.outputs = tuple(steps), tuple(inputs), tuple(outputs)
        for step in self.steps:
            for tensor in step.reads:
                if tensor is not None and tensor.data is not None:
                    self._register(tensor)

    def _register(self, tensor: Tensor) -> None:
        name = f"constant_{tensor.index}"
        if hasattr(self, name):
            return
        self.register_buffer(name, torch.from_numpy(tensor.data))
        if tensor.quantization is not None and tensor.quantization.axis >= 0:
            scales, zeros = by_channel(tensor.quantization)
            self.register_buffer(f"{name}_scales", scales)
            self.register_buffer(f"{name}_zeros", zeros)

    def _constant(self, tensor: Tensor) -> torch.Tensor:
        name = f"constant_{tensor.index}"
        data: torch.Tensor = getattr(self, name)
        if not is_quantized(tensor) or tensor.quantization is None:
            return data
        channels = [getattr(self, f"{name}_{part}", None) for part in ("scales", "zeros")]
        return restored(data, tensor.quantization, *channels)

    def _value(self, tensor: Tensor | None, made: Mapping[int, torch.Tensor]) -> Any:
        if tensor is None:
            return None
        return made[tensor.index] if tensor.data is None else self._constant(tensor)

    def forward(self, *inputs: torch.Tensor) -> Any:
        made = {t.index: settled(x, t) for x, t in zip(inputs, self.inputs, strict=True)}
        for step in self.steps:
            results = step.run([self._value(tensor, made) for tensor in step.reads])
            for result, tensor in zip(results, step.call.outputs, strict=True):
                made[tensor.index] = result
        results = [made[tensor.index] for tensor in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)

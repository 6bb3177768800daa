"""Results of the NPU say, when somebody wants their gradient, that they have none."""

from collections.abc import Sequence
from typing import Any

import torch

from spec.errors import SystolaError

SOURCE = "torch.compile(…, backend='systola')"
"""What results come from, in the message to who wants their gradient."""


def without_gradient(
    anchor: torch.Tensor, outputs: Sequence[torch.Tensor], source: str
) -> tuple[torch.Tensor, ...]:
    """The outputs with a `grad_fn` that raises `SystolaError`.

    anchor: a tensor that wants a gradient. source: what the outputs come from, for the message.
    """
    return tuple(_NoGradient.apply(source, anchor, *outputs))


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: str, anchor: torch.Tensor, *outputs: torch.Tensor) -> Any:
        ctx.source = source
        return outputs

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise SystolaError(
            f"the NPU computes no gradients: this value comes from {ctx.source}, which is for "
            "inference. To train, run the model itself on the CPU"
        )

"""Weights for networks whose real ones cannot be had: seeded, and fitted to data.

Untouched random initialisation is worthless for a network with batch norms: most of MobileNetV2's
int8 activations would be all zero, so the norms' statistics are estimated on data. And a deep
random network is chaotic: one rounding difference in the first layer changes half of the last one.
A shift of `NORM_SHIFT` behind every norm keeps most values on the linear side of the activations,
as training does, so that a comparison of outputs says something.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sw.compiler.frontend.threads import one_thread

NORM_SHIFT = 1.0
CENTRING = 0.5
"""Share of the mean output that the last layer's bias takes away: the mean is the same for every
image, and with all of it hardly anything else would show.
"""

WEIGHTS = (
    f"seeded Kaiming weights; batch norms: shift {NORM_SHIFT:g}, statistics of the calibration data"
)


def initialise(module: nn.Module, seed: int, data: Tensor, *, centred: bool = True) -> None:
    """Give `module` weights from `seed` and fit them to `data` (one batch of inputs).

    centred: the last linear layer makes the module's only output. Leaves inference mode on.
    """
    generator = torch.Generator().manual_seed(seed)
    last: nn.Linear | None = None
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            nn.init.constant_(layer.bias, NORM_SHIFT)
        if isinstance(layer, nn.Linear):
            last = layer
    with torch.no_grad(), one_thread():
        mean = _estimate_norms(module, data).mean(0)
        if centred:
            assert last is not None and last.bias is not None
            last.bias -= CENTRING * mean


def _estimate_norms(module: nn.Module, data: Tensor) -> Tensor:
    """Give every batch norm the mean and variance of its input over `data`; the outputs."""
    module.eval()
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0  # the statistics of this batch, nothing of what was there before
    output = first_output(module(data))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
    return output


def first_output(result: Any) -> Tensor:
    """The first tensor of what a module returns: a tensor, a sequence, a dataclass of them."""
    leaves = [v for v in torch.utils._pytree.tree_leaves(result) if isinstance(v, Tensor)]
    return leaves[0]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch's generator with a seed of our own; the caller's comes back."""
    state: Any = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)

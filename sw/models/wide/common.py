"""What the families share: blocks, weights fitted to data, and data to calibrate and run on."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from sw.models.photographs import crops
from sw.models.weights import initialise, seeded

Inputs = tuple[Tensor, ...]
Activation = Callable[[], nn.Module]

CALIBRATION, SAMPLES = 12, 4
"""Calls that set ranges and statistics, and calls to run; of different pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WideNet:
    """A float network in inference mode, with the arguments of calls.

    more: makes any number of samples, of which `samples` are the first; None where there are none.
    """

    module: nn.Module
    calibration: list[Inputs]
    samples: list[Inputs]
    more: Callable[[int], list[Inputs]] | None = None


def conv(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    act: Activation | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution, batch norm, activation; padded so that stride 1 keeps the size."""
    padding = dilation * (kernel // 2)
    layers = [
        nn.Conv2d(
            inputs,
            outputs,
            kernel,
            stride,
            padding,
            dilation=dilation,
            groups=groups,
            bias=False,
        ),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


def head(channels: int, classes: int, *hidden: int) -> nn.Sequential:
    """Global average pool and fully connected layers."""
    layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    sizes = [channels, *hidden]
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


def pictures(count: int, size: int, seed: int) -> Tensor:
    """Photographs [count, 3, size, size] in −1…1."""
    return torch.from_numpy(2 * crops(count, size, seed) - 1)


def image_net(
    build: Callable[[], nn.Module], seed: int, size: int, *, centred: bool = True
) -> WideNet:
    """A network from photographs; its weights are fitted to those that calibrate.

    centred: its last linear layer makes scores of classes.
    """
    calibration, samples = pictures(CALIBRATION, size, seed), pictures(SAMPLES, size, seed + 1)
    network = fitted(build, seed, calibration, samples, centred=centred)
    return replace(network, more=lambda count: one_by_one(pictures(count, size, seed + 1)))


def fitted(
    build: Callable[[], nn.Module],
    seed: int,
    calibration: Tensor,
    samples: Tensor,
    *,
    centred: bool = True,
) -> WideNet:
    """A network of one input, with Kaiming weights and the statistics of `calibration`."""
    with seeded(seed):
        module = build()
        kaiming(module)
    initialise(module, seed, calibration, centred=centred)
    return WideNet(module=module, calibration=[(calibration,)], samples=one_by_one(samples))


def kaiming(module: nn.Module) -> None:
    """Kaiming weights for the layers that `initialise` does not know, from PyTorch's generator."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv1d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def one_by_one(*batches: Tensor) -> list[Inputs]:
    """Each sample of the batches as a call of its own."""
    return [tuple(parts) for parts in zip(*(b.split(1) for b in batches), strict=True)]


def token_net(module: nn.Module, *shapes: Sequence[int], vocabulary: int, seed: int) -> WideNet:
    """A network from random tokens, one int64 argument a shape; it keeps the weights it has."""
    generator = torch.Generator().manual_seed(seed)

    def call() -> Inputs:
        return tuple(torch.randint(0, vocabulary, tuple(s), generator=generator) for s in shapes)

    calls = [call() for _ in range(CALIBRATION + SAMPLES)]
    return WideNet(
        module=module.eval(), calibration=calls[:CALIBRATION], samples=calls[CALIBRATION:]
    )

"""Small modules, one per operator or fusion, for the importer's tests: builders and shapes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Apply(nn.Module):
    """A module around a function of its submodules."""

    def __init__(self, function: Callable[..., Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.function = function

    def forward(self, *x: Tensor) -> Tensor:
        return self.function(*self.layers, *x)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`kinds`: TOSA operators that must appear, in this order."""

    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]


def _bn(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    with torch.no_grad():
        for tensor in (norm.weight, norm.running_var):
            tensor.uniform_(0.5, 2)
        for tensor in (norm.bias, norm.running_mean):
            tensor.uniform_(-1, 1)
    return norm


def _case(build: Callable[[], nn.Module], shapes: tuple[tuple[int, ...], ...], *kinds: str) -> Case:
    return Case(build=build, shapes=shapes, kinds=kinds)


def _f(function: Callable[..., Tensor], *layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: Apply(function, *layers)


def _inplace_add(c: nn.Module, x: Tensor) -> Tensor:
    y = c(x)
    y += x
    return F.relu(y)


IMAGE = ((2, 5, 17, 19),)
CONV = ("CONV2D", "RESCALE")
DEPTHWISE = ("DEPTHWISE_CONV2D", "RESCALE")
EXACT_CASES: dict[str, Case] = {
    "conv": _case(lambda: nn.Conv2d(5, 7, 3), IMAGE, *CONV),
    "conv_pad_stride": _case(lambda: nn.Conv2d(5, 7, 3, stride=2, padding=1), IMAGE, *CONV),
    "conv_1x1_stride2_even": _case(
        lambda: nn.Conv2d(8, 33, 1, stride=2, bias=False), ((2, 8, 16, 18),), "SLICE", *CONV
    ),
    "conv_dilated_rect": _case(
        lambda: nn.Conv2d(5, 16, (3, 2), dilation=(2, 3), padding=(2, 1)), IMAGE, *CONV
    ),
    "conv_same": _case(lambda: nn.Conv2d(5, 16, (4, 3), padding="same"), IMAGE, *CONV),
    "conv_pad_asymmetric": _case(
        lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), nn.Conv2d(5, 16, 3, stride=2)),
        IMAGE,
        *CONV,
    ),
    "conv_bn_relu": _case(
        lambda: nn.Sequential(nn.Conv2d(5, 16, 3, padding=1, bias=False), _bn(16), nn.ReLU()),
        IMAGE,
        *CONV,
    ),
    "conv_relu6": _case(
        lambda: nn.Sequential(nn.Conv2d(5, 16, 3), nn.ReLU6(inplace=True)), IMAGE, *CONV
    ),
    "conv_hardtanh": _case(
        lambda: nn.Sequential(nn.Conv2d(5, 16, 3), nn.Hardtanh(-0.2, 0.3)), IMAGE, *CONV
    ),
    "depthwise": _case(
        lambda: nn.Sequential(
            nn.Conv2d(5, 5, 3, stride=2, padding=1, groups=5, bias=False), _bn(5), nn.ReLU6()
        ),
        IMAGE,
        *DEPTHWISE,
    ),
    "depthwise_multiplier": _case(
        lambda: nn.Conv2d(5, 15, (4, 3), padding="same", groups=5), IMAGE, *DEPTHWISE
    ),
    "depthwise_pad_asymmetric": _case(
        _f(
            lambda c, x: F.hardtanh(c(F.pad(x, (0, 1, 0, 1)))),
            nn.Conv2d(5, 10, 3, stride=2, dilation=2, groups=5),
        ),
        IMAGE,
        *DEPTHWISE,
    ),
    "linear": _case(lambda: nn.Linear(37, 65), ((64, 37),), *CONV),
    "linear_relu_3d": _case(
        lambda: nn.Sequential(nn.Linear(17, 33, bias=False), nn.ReLU()), ((3, 20, 17),), *CONV
    ),
    "flatten_linear": _case(
        lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 128)),
        ((16, 6, 8, 8),),
        "MAX_POOL2D",
        "RESHAPE",
        *CONV,
    ),
    "matmul": _case(_f(torch.matmul), ((3, 17, 33), (3, 33, 20)), "MATMUL", "RESCALE"),
    "bmm_transposed": _case(
        _f(lambda a, b: torch.bmm(a, b.transpose(1, 2))),
        ((3, 17, 33), (3, 20, 33)),
        "TRANSPOSE",
        "MATMUL",
        "RESCALE",
    ),
    "matmul_4d_scaled": _case(
        _f(lambda a, b: (torch.matmul(a, b) / 4).relu()),
        ((2, 3, 9, 8), (2, 3, 8, 40)),
        "MATMUL",
        "RESCALE",
    ),
    "add": _case(_f(torch.add), (IMAGE[0], IMAGE[0]), "RESCALE", "RESCALE", "ADD", "RESCALE"),
    "add_relu": _case(_f(lambda a, b: F.relu(a + 3 * b)), (IMAGE[0], IMAGE[0]), "ADD", "RESCALE"),
    "sub": _case(_f(torch.sub), ((64, 33), (64, 33)), "SUB", "RESCALE"),
    "relu_alone": _case(nn.ReLU, ((64, 33),), "RESCALE"),
    "clamp_alone": _case(_f(lambda x: torch.clamp(x, 0.5, 1.5)), ((64, 33),), "RESCALE", "CLAMP"),
    "max_pool": _case(lambda: nn.MaxPool2d(3, 2, 1), IMAGE, "MAX_POOL2D"),
    "max_pool_ceil": _case(
        lambda: nn.MaxPool2d(3, 2, ceil_mode=True), ((2, 16, 16, 18),), "MAX_POOL2D"
    ),
    "max_pool_indices": _case(
        _f(lambda x: F.max_pool2d(x, 2, return_indices=True)[0]), IMAGE, "SLICE", "MAX_POOL2D"
    ),
    "avg_pool_odd": _case(lambda: nn.AvgPool2d(3, 1), IMAGE, "AVG_POOL2D"),
    "avg_pool_pad_counted": _case(
        lambda: nn.AvgPool2d(3, 2, padding=1), IMAGE, "PAD", "AVG_POOL2D"
    ),
    "avg_pool_odd_global": _case(lambda: nn.AdaptiveAvgPool2d(1), ((64, 33, 7, 7),), "AVG_POOL2D"),
    "mean": _case(_f(lambda x: x.mean((-1, -2))), ((64, 33, 5, 5),), "AVG_POOL2D"),
    "pad_value": _case(_f(lambda x: F.pad(x, (1, 0, 2, 3), value=0.5)), IMAGE, "PAD"),
    "pad_negative": _case(_f(lambda x: F.pad(x, (-1, 2, 0, -3))), IMAGE, "SLICE", "PAD"),
    "slice": _case(_f(lambda x: x[:, 1:4, :, 2:-1]), IMAGE, "SLICE", "SLICE"),
    "view_permute": _case(
        _f(lambda x: x.permute(0, 2, 1).reshape(8, 5, 66).transpose(1, 2)),
        ((8, 33, 10),),
        "IDENTITY",
    ),
    "residual_convs": _case(
        _f(lambda c, d, x: F.relu(c(x) + F.relu6(d(x))), nn.Conv2d(5, 16, 3), nn.Conv2d(5, 16, 3)),
        IMAGE,
        "ADD",
    ),
    "residual_shortcut": _case(
        _f(
            lambda c, d, x: c(F.relu(x)) + d(x), nn.Conv2d(5, 16, 3, padding=1), nn.Conv2d(5, 16, 1)
        ),
        IMAGE,
        "ADD",
    ),
    "residual_far_scales": _case(
        _f(lambda c, x: 0.001 * c(x) + 40 * x, nn.Conv2d(5, 5, 3, padding=1)), IMAGE, "ADD"
    ),
    "residual_inplace": _case(
        lambda: Apply(_inplace_add, nn.Conv2d(8, 8, 3, padding=1)), ((2, 8, 14, 14),), "ADD"
    ),
}
"""At most 1 LSB off in at most 0.1% of elements, against the PT2E graph's own integers."""

TIE_CASES: dict[str, Case] = {
    "avg_pool_even": _case(lambda: nn.AvgPool2d(2), ((2, 16, 16, 18),), "AVG_POOL2D"),
    "avg_pool_pad_ignored": _case(
        lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), IMAGE, "AVG_POOL2D"
    ),
    "adaptive_even": _case(lambda: nn.AdaptiveAvgPool2d((2, 4)), ((8, 16, 8, 8),), "AVG_POOL2D"),
}
"""Means that are often halfway: TOSA rounds those up, PyTorch as float32 happens to fall."""

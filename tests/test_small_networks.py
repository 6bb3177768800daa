"""Small networks of many kinds through the importer, against PyTorch; some on the golden model."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.golden import GoldenDevice

TINY = preset("tiny")
IMAGE = (1, 8, 8, 8)


class Net(nn.Module):
    """`function` of the parts and the inputs."""

    def __init__(self, function: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*self.parts, *inputs)


def _dense(*parts: Tensor) -> Tensor:
    *layers, x = parts
    for layer in layers:
        x = torch.cat([x, F.relu(layer(x))], 1)
    return x


def _wave(*parts: Tensor) -> Tensor:
    *layers, x = parts
    for layer in layers:
        a, b = layer(F.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
        x = x + torch.tanh(a) * torch.sigmoid(b)
    return x


def _unet(down: nn.Module, deep: nn.Module, up: nn.Module, x: Tensor) -> Tensor:
    first = F.relu(down(x))
    return torch.cat([up(F.relu(deep(F.max_pool2d(first, 2)))), first], 1)


def _heads(a: nn.Module, b: nn.Module, x: Tensor) -> Tensor:
    found = [c(x).permute(0, 2, 3, 1).reshape(1, -1, 4) for c in (a, b)]
    return torch.cat(found, 1).softmax(-1)


def _rope(x: Tensor) -> Tensor:
    angle = torch.outer(torch.arange(6.0), 10000 ** (-torch.arange(0, 8, 2) / 8))
    a, b, c, s = x[..., ::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def _experts(gate: nn.Module, *parts: Tensor) -> Tensor:
    *experts, x = parts
    weight = gate(x).softmax(-1)
    return sum(weight[..., i : i + 1] * F.gelu(e(x)) for i, e in enumerate(experts))


def _scan(x: Tensor, step: Tensor, keep: Tensor) -> Tensor:
    state, found = torch.zeros(2, 4), []
    for t in range(x.shape[1]):
        state = state * torch.exp(-F.softplus(step[:, t])) + x[:, t]
        found.append(state * keep[:, t])
    return torch.stack(found, 1)


def _swin(x: Tensor) -> Tensor:
    rolled = torch.roll(x, (-2, -2), (1, 2)).reshape(1, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5)
    rows = rolled.reshape(4, 16, 8)
    return F.scaled_dot_product_attention(rows, rows, rows)


def _conv(*args: int, **kwargs: int) -> nn.Conv2d:
    return nn.Conv2d(*args, **kwargs)


def _cases() -> dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]]:
    line, tokens = (1, 8, 20), (2, 6, 8)
    return {
        "dense blocks": (Net(_dense, _conv(8, 4, 3, padding=1), _conv(12, 4, 1)), (IMAGE,)),
        "u-net": (Net(_unet, _conv(8, 8, 3, padding=1), _conv(8, 8, 3, padding=1),
                      nn.ConvTranspose2d(8, 8, 2, 2)), (IMAGE,)),
        "dilated branches": (Net(lambda a, b, x: torch.cat([a(x), b(x)], 1),
                                 _conv(8, 4, 3, padding=2, dilation=2),
                                 _conv(8, 4, 3, padding=4, dilation=4)), (IMAGE,)),
        "heads of a detector": (Net(_heads, _conv(8, 12, 3, padding=1), _conv(8, 12, 3, 2, 1)),
                                (IMAGE,)),
        "squeeze and excitation": (Net(lambda c, x: x * c(F.adaptive_avg_pool2d(x, 1)),
                                       nn.Sequential(_conv(8, 4, 1), nn.SiLU(), _conv(4, 8, 1),
                                                     nn.Hardsigmoid())), (IMAGE,)),
        "shuffled groups": (nn.Sequential(_conv(8, 8, 1, groups=2), nn.ChannelShuffle(2),
                                          _conv(8, 8, 3, padding=1, groups=8)), (IMAGE,)),
        "super-resolution": (nn.Sequential(_conv(8, 16, 3, padding=1), nn.PixelShuffle(2),
                                           nn.PReLU(4)), (IMAGE,)),
        "instance norm, reflected": (nn.Sequential(nn.ReflectionPad2d(1), _conv(8, 6, 3),
                                                   nn.InstanceNorm2d(6, affine=True), nn.Mish()),
                                     (IMAGE,)),
        "local response norm": (nn.Sequential(nn.LocalResponseNorm(3), _conv(8, 4, 1)), (IMAGE,)),
        "speech": (nn.Sequential(nn.Conv1d(8, 12, 5, 2, 2), nn.BatchNorm1d(12), nn.ReLU(),
                                 nn.MaxPool1d(2), nn.Conv1d(12, 8, 3), nn.AvgPool1d(3)), (line,)),
        "causal waves": (Net(_wave, nn.Conv1d(8, 16, 2), nn.Conv1d(8, 16, 2, dilation=2)),
                         (line,)),
        "statistics over time": (Net(lambda x: torch.cat([x.mean(-1), x.std(-1)], 1)), (line,)),
        "volumes": (nn.Sequential(nn.BatchNorm3d(2), nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(),
                                  nn.MaxPool3d(2), nn.ConvTranspose3d(4, 2, 2, 2)),
                    ((1, 2, 4, 4, 4),)),
        "rotary positions": (Net(_rope), ((1, 2, 6, 8),)),
        "shifted windows": (Net(_swin), ((1, 8, 8, 8),)),
        "mixture of experts": (Net(_experts, nn.Linear(8, 2), nn.Linear(8, 8), nn.Linear(8, 8)),
                               (tokens,)),
        "state space": (Net(_scan), ((2, 5, 4), (2, 5, 4), (2, 5, 4))),
        "graph convolution": (Net(lambda x, a: torch.einsum("nctv,vw->nctw", x, a)),
                              ((1, 3, 4, 5), (5, 5))),
        "similarities": (Net(lambda a, b: F.cosine_similarity(a[:, None], b[None], -1)),
                         ((4, 8), (5, 8))),
        "log-probabilities": (Net(lambda c, x: F.log_softmax(c(x), 1), _conv(8, 5, 1)), (IMAGE,)),
        "gated units, other norms": (nn.Sequential(nn.Linear(8, 16), nn.GLU(-1),
                                                   nn.LayerNorm([6, 8])), (tokens,)),
        "resized": (Net(lambda x: F.interpolate(x, size=(5, 13), mode="bilinear")), (IMAGE,)),
    }  # fmt: skip


GOLDEN = ("u-net", "causal waves", "volumes", "resized", "shifted windows")


@pytest.mark.parametrize("name", _cases())
def test_small_networks_follow_pytorch(name: str) -> None:
    torch.manual_seed(2)
    module, shapes = _cases()[name]
    module.eval()
    samples = [tuple(torch.randn(s) for s in shapes) for _ in range(2)]
    imported = import_model(module, samples[0], calibration=samples, policy="wide")
    arrays = pack_inputs(imported, samples[0])
    found = run_graph(imported.graph, arrays)
    (result,) = unpack_outputs(imported, found)
    with torch.no_grad():
        exact = module(*samples[0]).numpy()
    assert result.shape == exact.shape
    assert np.corrcoef(result.ravel(), exact.ravel())[0, 1] >= 0.999
    if name in GOLDEN:
        device = GoldenDevice(TINY)
        device.load(compile_graph(imported.graph, TINY))
        for port, array in arrays.items():
            device.write(port, array)
        device.run()
        (output,) = imported.graph.outputs
        assert np.array_equal(device.read(output), found[output])

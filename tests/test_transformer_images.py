"""Networks of convolutions through the importer: ResNet, MobileNetV2, DETR."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import Imported, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.tosa.interpreter import run_graph
from sw.models.detectors import detr, scenes

_SMALL: dict[str, Any] = {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 16}


def _pcc(a: Any, b: Any) -> float:
    return float(np.corrcoef(np.ravel(a).astype(float), np.ravel(b).astype(float))[0, 1])


def _check(
    module: nn.Module, make: Callable[[], tuple[torch.Tensor, ...]], least: float
) -> Imported:
    """PCC with float of two samples, and of one sample with the other."""
    module.eval()
    samples = [make() for _ in range(5)]
    imported = import_model(module, samples[0], calibration=samples[:3], policy="wide")
    with torch.no_grad():
        exact = [torch.utils._pytree.tree_leaves(module(*s)) for s in samples[3:]]
    found = [
        unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, s)))
        for s in samples[3:]
    ]
    for i in range(len(exact[0])):
        between = _pcc(exact[0][i], exact[1][i])
        for a, b in zip(exact, found, strict=True):
            assert _pcc(a[i], b[i]) >= max(least, (1 + between) / 2)
    return imported


def _statistics(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, 0, 0.2)
            nn.init.uniform_(layer.running_var, 0.5, 2)
            nn.init.normal_(layer.bias, 0, 0.3)


class Pooled(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).pooler_output


def test_batch_norms_sums_and_bounds_of_a_resnet_cost_no_pass_of_their_own() -> None:
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(0)
    module = Pooled(ResNetModel(ResNetConfig(layer_type="basic", **_SMALL)))
    _statistics(module)
    imported = _check(module, scenes(32, 32), 0.99)
    kinds = Counter(op.kind for op in imported.graph.ops)
    assert kinds["CONV2D"] == 6 and kinds["ADD"] == 2  # two shortcuts
    assert kinds["MUL"] == kinds["TABLE"] == kinds["TRANSPOSE"] == 0
    assert imported.inputs[0].layout.memory_shape == (1, 32, 32, 3)


class Inverted(nn.Module):
    """A block of MobileNetV2: expand, by channel, project, and the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU6(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU6(),
            nn.Conv2d(8, 3, 1), nn.BatchNorm2d(3),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def test_an_inverted_residual_has_a_depthwise_convolution() -> None:
    torch.manual_seed(0)
    module = Inverted()
    _statistics(module)
    imported = _check(module, scenes(16, 16), 0.99)
    kinds = Counter(op.kind for op in imported.graph.ops)
    assert kinds["DEPTHWISE_CONV2D"] == 1 and kinds["CONV2D"] == 2


def test_detr_runs_wholly_on_integers() -> None:
    torch.manual_seed(1)
    module, make = detr(
        64, 64, {**_SMALL, "depths": [1] * 4, "hidden_sizes": [16, 16, 32, 32]}, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=10,
    )  # fmt: skip
    imported = _check(module, make, 0.98)
    assert [p.shape for p in imported.outputs] == [(1, 10, 92), (1, 10, 4)]

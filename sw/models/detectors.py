"""YOLOS and DETR with random weights that still tell images, and boxes, apart.

As `transformers` initializes them, detection tokens are all zero and heads nearly constant: every
box would be the same one, whatever the image. So tokens and positions are drawn with the deviation
that trained ones start from (0.02), heads with 1/√inputs, and the frozen batch norms of a ResNet
hold the statistics of images instead of 0 and 1.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]

_GRAIN = 32
"""Pixels between the independent values of an image's coarse structure."""


class Detector(nn.Module):
    """Class scores and boxes of a detector."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.model(pixels)
        return out.logits, out.pred_boxes


def scenes(height: int, width: int) -> Callable[[], Inputs]:
    """Images [1, 3, height, width] of smooth random fields under noise: white noise looks the same
    to a network everywhere.
    """

    def make() -> Inputs:
        coarse = torch.randn(1, 3, max(height // _GRAIN, 2), max(width // _GRAIN, 2))
        smooth = nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")
        return (smooth + 0.3 * torch.randn(1, 3, height, width),)

    return make


def yolos(side: int = 224, **sizes: Any) -> tuple[nn.Module, Callable[[], Inputs]]:
    """YOLOS-tiny for square images of `side` pixels."""
    from transformers import YolosConfig, YolosForObjectDetection

    tiny = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768} | sizes
    model = YolosForObjectDetection(YolosConfig(image_size=[side, side], num_labels=91, **tiny))
    words = ("detection_tokens", "position_embeddings", "cls_token")
    for name, parameter in model.named_parameters():
        if any(word in name for word in words):
            nn.init.normal_(parameter, 0.0, 0.02)
    _draw(model.class_labels_classifier, model.bbox_predictor)
    return Detector(model), scenes(side, side)


def detr(
    height: int, width: int, backbone: dict[str, Any] | None = None, **sizes: Any
) -> tuple[nn.Module, Callable[[], Inputs]]:
    """DETR with a ResNet backbone (default: DETR-ResNet-50)."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    config = DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=ResNetConfig(out_features=["stage4"], **(backbone or {})),
        num_labels=91,
        **sizes,
    )
    model = DetrForObjectDetection(config).eval()
    _draw(model.class_labels_classifier, model.bbox_predictor)
    make = scenes(height, width)
    _settle(model, torch.cat([make()[0] for _ in range(4)]))
    return Detector(model), make


def _draw(*heads: nn.Module) -> None:
    for head in heads:
        for layer in head.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0.0, layer.in_features**-0.5)


def _settle(model: nn.Module, images: torch.Tensor) -> None:
    """Give every frozen batch norm the statistics of what it reads."""

    def take(norm: Any, inputs: Sequence[torch.Tensor]) -> None:
        norm.running_mean.copy_(inputs[0].mean((0, 2, 3)))
        norm.running_var.copy_(inputs[0].var((0, 2, 3)))

    norms = [m for m in model.modules() if type(m).__name__ == "DetrFrozenBatchNorm2d"]
    hooks = [norm.register_forward_pre_hook(take) for norm in norms]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()

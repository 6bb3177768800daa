"""Image networks of `transformers`, unmodified: ResNet-18 and -50 (v1.5), MobileNetV1 and V2."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from sw.compiler.frontend.threads import quiet
from sw.models.photographs import DATA, crops
from sw.models.prepared import CALIBRATION, TEST, Prepared
from sw.models.weights import WEIGHTS, initialise, seeded

LABELS = 1000
SIZE = 224


def resnet18(seed: int) -> Prepared:
    return _prepare(_resnet18, seed, _IMAGENET)


def resnet50(seed: int) -> Prepared:
    return _prepare(_resnet50, seed, _IMAGENET)


def mobilenet_v1(seed: int) -> Prepared:
    return _prepare(_mobilenet_v1, seed, _SYMMETRIC)


def mobilenet_v2(seed: int) -> Prepared:
    return _prepare(_mobilenet_v2, seed, _SYMMETRIC)


_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_SYMMETRIC = ((0.5,) * 3, (0.5,) * 3)
"""(mean, standard deviation) per channel that images are normalised with."""


def _resnet18() -> nn.Module:
    with quiet():
        from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        depths=[2, 2, 2, 2],
        layer_type="basic",
        hidden_sizes=[64, 128, 256, 512],
        embedding_size=64,
        num_labels=LABELS,
    )
    return ResNetForImageClassification(config)


def _resnet50() -> nn.Module:
    with quiet():
        from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=LABELS))


def _mobilenet_v1() -> nn.Module:
    with quiet():
        from transformers import MobileNetV1Config, MobileNetV1ForImageClassification

    return MobileNetV1ForImageClassification(MobileNetV1Config(num_labels=LABELS))


def _mobilenet_v2() -> nn.Module:
    with quiet():
        from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=LABELS))


def _prepare(build: Callable[[], nn.Module], seed: int, normalisation: Any) -> Prepared:
    mean, deviation = (np.reshape(v, (1, 3, 1, 1)).astype(np.float32) for v in normalisation)
    calibration, test = (
        (crops(count, SIZE, seed + offset) - mean) / deviation
        for count, offset in (CALIBRATION, TEST)
    )
    with seeded(seed):
        module = build()
    initialise(module, seed, torch.from_numpy(calibration))
    return Prepared(module=module, calibration=calibration, test=test, data=DATA, weights=WEIGHTS)

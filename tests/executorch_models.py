"""Models that tests lower to `.pte` files, and how."""

import warnings
from pathlib import Path

import torch
from torch import nn


class Mixed(nn.Module):
    """A convolution block and a linear layer for the NPU, a sum in float64 between them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 5)

    def forward(self, x, *, shift):
        features = self.norm(self.conv(x)).relu().mean((2, 3))
        scores = self.first(features)
        sums = torch.cumsum(scores.double(), 1).float()
        return {"classes": self.second(sums + shift), "scores": scores}


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.linear(x), self.calls.clone()


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)
    ).eval()


def resnet18(width: int = 64) -> nn.Module:
    """ResNet-18 for 10 classes. width: channels of the first stage, 64 in the original."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        depths=[2, 2, 2, 2],
        layer_type="basic",
        embedding_size=width,
        hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
        num_labels=10,
        return_dict=False,
    )
    return ResNetForImageClassification(config).eval()


def quantized(model: nn.Module, images: torch.Tensor) -> torch.export.ExportedProgram:
    """In int8, as PyTorch's users quantize: prepare, calibrate, convert, export."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from systola.executorch import SystolaQuantizer

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(
            torch.export.export(model, (images[:1],)).module(), SystolaQuantizer()
        )
        for image in images:
            prepared(image[None])
        return torch.export.export(convert_pt2e(prepared), (images[:1],))


def lowered(program: torch.export.ExportedProgram, path: Path, **options):
    """Write the `.pte` file; returns the partitioner."""
    from executorch.exir import to_edge_transform_and_lower

    from systola.executorch import SystolaPartitioner

    partitioner = SystolaPartitioner(**{"config": "tiny", "progress": False, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
        path.write_bytes(edge.to_executorch().buffer)
    return partitioner

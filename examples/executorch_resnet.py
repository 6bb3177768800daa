"""Quantize a ResNet-18 with PyTorch, lower it to a .pte file, and run that in ExecuTorch's runtime.

    pip install 'systola[executorch]'
    python examples/executorch_resnet.py
    python examples/executorch_resnet.py --device rtl --size 32

The weights are random, and so are the images: put in your own.
"""

import argparse
import warnings
from pathlib import Path

import torch
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from transformers import ResNetConfig, ResNetForImageClassification

from systola.executorch import SystolaPartitioner, SystolaQuantizer, load


def resnet18() -> torch.nn.Module:
    """A ResNet-18 that returns its logits."""
    config = ResNetConfig(
        depths=[2, 2, 2, 2],
        layer_type="basic",
        hidden_sizes=[64, 128, 256, 512],
        embedding_size=64,
        num_labels=1000,
        return_dict=False,
    )
    return ResNetForImageClassification(config).eval()


def quantize(model: torch.nn.Module, images: torch.Tensor) -> torch.export.ExportedProgram:
    """The model in int8, calibrated by `images`: PyTorch's own quantization (PT2E)."""
    example = (images[:1],)
    prepared = prepare_pt2e(torch.export.export(model, example).module(), SystolaQuantizer())
    for image in images:
        prepared(image[None])
    return torch.export.export(convert_pt2e(prepared), example)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--config", default="default", help="a preset: systola config list")
    parser.add_argument("--size", type=int, default=64, help="pixels of an image's side")
    parser.add_argument("--out", type=Path, default=Path("resnet18.pte"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    torch.manual_seed(0)
    model, images = resnet18(), torch.randn(4, 3, args.size, args.size)
    quantized = quantize(model, images)
    partitioner = SystolaPartitioner(config=args.config)
    edge = to_edge_transform_and_lower(quantized, partitioner=[partitioner])
    args.out.write_bytes(edge.to_executorch().buffer)
    print(partitioner.reports[0].lines(80)[0])
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")

    network = load(args.out, device=args.device, verify=args.device == "rtl")
    with torch.no_grad():
        exact, (logits,) = model(images[:1])[0], network(images[:1])
    print(f"correlation with float: {torch.corrcoef(torch.cat([exact, logits]))[0, 1]:.5f}")
    print(network.report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

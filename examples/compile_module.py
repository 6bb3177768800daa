"""Compile a small PyTorch module and run it on the NPU: golden model, or RTL with `--device rtl`.

    python examples/compile_module.py
    python examples/compile_module.py --device rtl --config tiny

It prints how far the NPU's results are from PyTorch in float32, and from PyTorch's own int8 graph.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

# Run from a source tree without installing it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import systola


class Residual(nn.Module):
    """Convolutions with a shortcut, a pool and a linear layer: ordinary PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Conv2d(16, 16, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.relu(self.body(x) + x)
        return self.head(torch.flatten(self.pool(x), 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("golden", "rtl"), default="golden")
    parser.add_argument("--config", default="default", help="preset of the NPU")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    module = Residual().eval()
    calibration = torch.randn(64, 3, 16, 16)
    image = torch.randn(1, 3, 16, 16)

    # Capture, quantize to int8 on the calibration data, compile for one configuration.
    npu = systola.preset(args.config)
    program = systola.compile(module, (image,), npu, calibration=[calibration], seed=args.seed)
    print(f"{len(program.imported.graph.ops)} TOSA operators, {program.image.program.size:,} bytes")

    outputs = systola.run(program.image, program.inputs(image), device=args.device)
    (logits,) = program.outputs(outputs)

    with torch.no_grad():
        in_float = module(image).numpy()
        (in_int8,) = (t.numpy() for t in program.quantized(image))
    step = program.imported.outputs[0].scale
    print(f"NPU ({args.device}, {npu.name}): {np.round(logits[0], 3)}")
    print(f"PyTorch float32:    {np.round(in_float[0], 3)}")
    print(f"largest difference to float32: {np.abs(logits - in_float).max():.4f}")
    off = np.abs(logits - in_int8).max() / step
    print(f"largest difference to PyTorch's int8 graph: {off:.0f} steps of {step:.4f}")
    return 0 if off <= 2.5 else 1


if __name__ == "__main__":
    raise SystemExit(main())

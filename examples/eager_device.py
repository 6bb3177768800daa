"""Run a model on the NPU operator by operator: tensors on `torch.device("systola")`.

    .venv/bin/python examples/eager_device.py
    .venv/bin/python examples/eager_device.py --device rtl --config tiny

`register_torch_device` makes the device known to PyTorch.
"""

import argparse

import torch
from torch import nn

import systola


class Classifier(nn.Module):
    """A convolution and a layer, with a branch on data between them: it is Python that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)).relu()
        if y.mean() > 100:
            y = y / 100
        return self.head(nn.functional.adaptive_avg_pool2d(y, 4).flatten(1)).softmax(-1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--config", default="default", help="a preset: systola config list")
    args = parser.parse_args()

    systola.register_torch_device()
    torch.manual_seed(0)
    torch.systola.set_options(device=args.device, config=args.config)
    model, images = Classifier().eval(), torch.randn(3, 2, 1, 8, 8)
    with torch.no_grad():
        exact = [model(batch) for batch in images]
        model.to("systola")
        for batch, expected in zip(images, exact, strict=True):
            found = model(batch.to("systola"))
            error = float((found.cpu() - expected).abs().max())
            print(f"{found.device}: largest error of a probability {error:.4f}")
            if error > 0.02:
                return 1
    print(f"{torch.systola.memory_allocated():,} bytes on the device")
    print(torch.systola.report())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Run a model on the NPU with torch.compile, and see what ran where.

    .venv/bin/python examples/torch_compile.py
    .venv/bin/python examples/torch_compile.py --device rtl --config tiny

The backend is found by its name: this script imports nothing of ours until it wants the report.
The model has an operator that the NPU does not know, and a branch on its data.
"""

import argparse

import torch
from torch import nn


class Gated(nn.Module):
    """Two layers, a sort between them, and one of two heads by the sign of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.up, self.down = nn.Linear(32, 8), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sort(self.body(x), dim=-1).values
        return self.up(y) if y.mean() > 0 else self.down(y)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--config", default="default", help="a preset: systola config list")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = Gated().eval()
    fast = torch.compile(
        model, backend="systola", options={"device": args.device, "config": args.config}
    )
    with torch.no_grad():
        for batch in (2, 3, 5, 2):
            x = torch.randn(batch, 32)
            got, exact = fast(x), model(x)
            error = float((got - exact).abs().max() / exact.abs().max())
            print(f"batch {batch}: largest error {error:.2%} of the largest value")
            if error > 0.05:
                return 1

    import systola

    print()
    print(systola.compile_report(fast))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

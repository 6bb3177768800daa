"""Run a ResNet-18 in TVM's virtual machine: convolutions on the NPU, a sort on TVM's CPU.

    pip install 'systola[tvm]'
    python examples/tvm_module.py
    python examples/tvm_module.py --device rtl --size 32 --config small

The weights are random, and so are the images: put in your own module and images.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
import tvm
from transformers import ResNetConfig, ResNetForImageClassification
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import systola.tvm


class Ranked(torch.nn.Module):
    """The logits of a ResNet-18, and its classes from the least to the most probable."""

    def __init__(self) -> None:
        super().__init__()
        config = ResNetConfig(depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000)
        config.hidden_sizes = [64, 128, 256, 512]
        self.network = ResNetForImageClassification(config)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.network(images).logits
        return logits, torch.argsort(logits, -1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--config", default="default", help="a preset: systola config list")
    parser.add_argument("--size", type=int, default=64, help="pixels of an image's side")
    parser.add_argument("--out", type=Path, default=Path("resnet18.so"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    torch.manual_seed(0)
    images = [torch.randn(1, 3, args.size, args.size).numpy() for _ in range(4)]
    exported = torch.export.export(Ranked().eval(), (torch.from_numpy(images[0]),))
    module = from_exported_program(exported)
    exact = relax.VirtualMachine(relax.build(module, "llvm"), tvm.cpu())
    wanted = exact["main"](tvm.runtime.tensor(images[0]))[0].numpy()

    options = {"config": args.config, "device": args.device, "calibration": images}
    offloaded = systola.tvm.offload(module, images[0], verify=True, **options)
    machine = offloaded.machine()
    logits, classes = machine["main"](tvm.runtime.tensor(images[0]))
    print(offloaded.report())
    print(
        f"classes {classes.numpy()[0, -5:]}, correlation "
        f"{np.corrcoef(wanted.ravel(), logits.numpy().ravel())[0, 1]:.5f}"
    )
    offloaded.save(args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

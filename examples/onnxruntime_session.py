"""Run a ResNet-18 in a session of ONNX Runtime: convolutions on the NPU, TopK on the CPU.

    pip install 'systola[onnxruntime]' onnxscript
    python examples/onnxruntime_session.py
    python examples/onnxruntime_session.py --int8 --device rtl --size 32

The weights are random, and so are the images: put in your own file and images.
"""

import argparse
import logging
import warnings
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from transformers import ResNetConfig, ResNetForImageClassification

import systola.onnx


class Top5(torch.nn.Module):
    """The five classes of a ResNet-18, with their logits."""

    def __init__(self) -> None:
        super().__init__()
        config = ResNetConfig(depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000)
        config.hidden_sizes = [64, 128, 256, 512]
        self.network = ResNetForImageClassification(config)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = self.network(images).logits
        best = torch.topk(logits, 5)
        return logits, best.values, best.indices


class Images(CalibrationDataReader):
    """What ONNX Runtime's quantization calibrates with."""

    def __init__(self, batches: list[np.ndarray]) -> None:
        self.left = list(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"images": self.left.pop()} if self.left else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--config", default="default", help="a preset: systola config list")
    parser.add_argument("--size", type=int, default=64, help="pixels of an image's side")
    parser.add_argument("--int8", action="store_true", help="quantize with ONNX Runtime first")
    parser.add_argument("--out", type=Path, default=Path("resnet18.onnx"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)

    torch.manual_seed(0)
    images = [torch.randn(1, 3, args.size, args.size).numpy() for _ in range(4)]
    example = (torch.from_numpy(images[0]),)
    torch.onnx.export(Top5().eval(), example, args.out, dynamo=True, external_data=False)
    (exact, *_) = ort.InferenceSession(args.out).run(None, {"images": images[0]})
    if args.int8:
        quantize_static(args.out, args.out, Images(images), per_channel=True)

    calibration = () if args.int8 else images  # a quantized model keeps its own scales
    options = {"config": args.config, "device": args.device, "calibration": calibration}
    offloaded = systola.onnx.offload(args.out, images[0], verify=True, **options)
    logits, _, classes = offloaded.session().run(None, {"images": images[0]})
    print(offloaded.report())
    print(f"classes {classes[0]}, correlation {np.corrcoef(exact, logits)[0, 1]:.5f}")
    offloaded.save(args.out.with_suffix(".npu.onnx"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Quantized files of the networks, for comparisons with the frameworks' interpreters."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from sw.measure.doors.classifier import SIZE, calibration, efficientnet_lite0
from sw.measure.doors.converting import litert_file
from sw.measure.doors.network import calibration as resnet_calibration
from sw.measure.doors.network import onnx_file, qdq_file, resnet18
from sw.measure.doors.network import tests as resnet_tests
from sw.measure.doors.photographs import photographs
from sw.measure.doors.programs import Array

RESNET_SIZE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network with its images. calibration, tests: float32 [N, 3, H, W]."""

    name: str
    make: Callable[[], nn.Module]
    calibration: Callable[[], Array]
    tests: Callable[[], Array]


CLASSIFIER = Network(
    name="EfficientNet-Lite0",
    make=efficientnet_lite0,
    calibration=calibration,
    tests=lambda: photographs(SIZE),
)
RESNET = Network(
    name="ResNet-18",
    make=resnet18,
    calibration=lambda: resnet_calibration(RESNET_SIZE),
    tests=lambda: resnet_tests(RESNET_SIZE),
)
NETWORKS = (CLASSIFIER, RESNET)


def onnx_int8(network: Network, folder: Path) -> Path:
    """The network as QDQ by ONNX Runtime."""
    batch = network.calibration()
    source = onnx_file(network.make(), batch[:1], folder / "float.onnx")
    return qdq_file(source, batch, folder / "int8.onnx")


def litert_int8(network: Network, folder: Path) -> Path:
    """The network as an int8 LiteRT file."""
    return litert_file(network.make(), network.calibration(), folder / "int8.tflite")

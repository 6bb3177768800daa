"""The network that goes through every door: a ResNet-18 of fixed weights, and its forms."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sw.compiler.frontend.quantization.quantizer import SystolaQuantizer
from sw.measure.doors.jax_resnet import Logits, torch_resnet
from sw.measure.doors.programs import Array, Function
from sw.models.photographs import crops

DEPTHS, WIDTHS, CLASSES = (2, 2, 2, 2), (64, 128, 256, 512), 1000
CALIBRATION, TESTS = 4, 4
"""Numbers of images."""

_MEAN, _SPREAD = 0.5, 0.25


def resnet18() -> nn.Module:
    """A ResNet-18 that returns its logits; random weights, the same at every call."""
    return Logits(torch_resnet(DEPTHS, WIDTHS, CLASSES)).eval()


def images(count: int, size: int, seed: int) -> Array:
    """Crops of photographs as the network takes them: float32 [count, 3, size, size]."""
    return np.asarray((crops(count, size, seed) - _MEAN) / _SPREAD, np.float32)


def calibration(size: int) -> Array:
    """The images that every quantizer sees."""
    return images(CALIBRATION, size, seed=0)


def tests(size: int) -> Array:
    """Images that none of them sees."""
    return images(TESTS, size, seed=1)


def calls(batch: Array) -> list[tuple[torch.Tensor]]:
    """A batch as calls of the model with one image each."""
    return [(torch.from_numpy(image)[None],) for image in batch]


def pt2e(module: nn.Module, batch: Array) -> Any:
    """The module in int8 by PyTorch (PT2E), with the quantizer that covers every operator."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    given = calls(batch)
    with quiet():
        prepared = prepare_pt2e(torch.export.export(module, given[0]).module(), SystolaQuantizer())
        for call in given:
            prepared(*call)
        return convert_pt2e(prepared)


def onnx_file(module: nn.Module, example: Array, path: Path) -> Path:
    """The float module as ONNX; its input is called `images`."""
    with quiet():
        torch.onnx.export(
            module, (torch.from_numpy(example),), path, dynamo=True, verbose=False,
            external_data=False, input_names=["images"],
        )  # fmt: skip
    return path


def qdq_file(source: Path, batch: Array, path: Path) -> Path:
    """An ONNX file in int8 by ONNX Runtime: QDQ, scales by channel for weights."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    left = iter([{"images": image[None]} for image in batch])

    class Images(CalibrationDataReader):
        def get_next(self) -> dict[str, Array] | None:
            return next(left, None)

    with quiet():
        quantize_static(source, path, Images(), per_channel=True)
    return path


def of_torch(module: Any) -> Function:
    """The module as a function of arrays."""

    def run(x: Array) -> Array:
        with torch.no_grad():
            found = module(torch.from_numpy(x))
        return np.asarray(found.numpy())

    return run


def of_onnxruntime(path: Path, precise: bool = True) -> Function:
    """A file in ONNX Runtime on the CPU.

    precise: its int8 products do not saturate. By default they do, on processors without VNNI: two
    products of uint8 and int8 are added in 16 bits.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
    made = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (port,) = made.get_inputs()
    return lambda x: np.asarray(made.run(None, {port.name: x})[0])


def each(function: Function, batch: Array) -> Array:
    """The results of every image by itself."""
    return np.concatenate([function(image[None]) for image in batch])


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the frameworks say while they convert."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)

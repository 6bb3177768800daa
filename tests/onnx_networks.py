"""Networks as ONNX files for tests: exported, quantized, and run by ONNX Runtime."""

import logging
import warnings

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F
from torch import nn


def exported(module, example, path):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"dynamo": True, "verbose": False, "external_data": False}
        torch.onnx.export(module.eval(), (example,), path, **options)


def session(path):
    """ONNX Runtime that computes the graph as it is written."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options)


def reference(made, x):
    return made.run(None, {made.get_inputs()[0].name: x})[0]


class Residual(nn.Module):
    """What quantized networks are made of: convolutions, a sum, a pool, a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem, self.body = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16, 32)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = F.max_pool2d(torch.relu(self.body(x) + x), 2)
        return self.head(torch.flatten(x, 1))


class Batches:
    """The calibration data, as `quantize_static` reads them."""

    def __init__(self, batches):
        self.left = list(batches)

    def get_next(self):
        return {"x": self.left.pop()} if self.left else None


def quantized(path, activations, per_channel=True, form="QDQ"):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(8)]
    to = path.with_name(f"{activations}.onnx")
    quantize_static(
        path,
        to,
        Batches(batches),
        quant_format=QuantFormat[form],
        per_channel=per_channel,
        activation_type=QuantType[activations],
        weight_type=QuantType.QInt8,
        op_types_to_quantize=None if form == "QDQ" else ["Conv"],
    )
    return to, batches

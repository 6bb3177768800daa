"""Files of other frameworks on the command line: known by content, through the one importer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from litert_files import LiteRtFile, run_litert
from litert_networks import cnn
from onnx_models import array, model, value
from typer.testing import CliRunner

from spec import preset
from sw.cli.main import app
from sw.compiler import compile_graph
from sw.frontends.doors import door_of
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.onnx import OnnxError
from sw.models.catalog import ModelError, get_model
from sw.models.supplied import Supplied, input_shapes
from sw.models.user import load
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import OptionError


def onnx_file(path: Path) -> Path:
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)) / 5
    nodes = [("Conv", ["x", "w"], ["h"], {"pads": [1, 1, 1, 1]}), ("Relu", ["h"], ["y"])]
    onnx.save(model(nodes, arrays=[array("w", weights)]), path)
    return path


def litert_file(path: Path) -> Path:
    path.write_bytes(cnn())
    return path


def door(path: Path) -> str | None:
    found = door_of(path)
    return found and found.name


def test_the_content_says_which_door(tmp_path: Path) -> None:
    assert door(onnx_file(tmp_path / "a.onnx")) == "ONNX"
    assert door(litert_file(tmp_path / "a.tflite")) == "LiteRT"
    assert door(onnx_file(tmp_path / "saved")) == "ONNX"
    assert door(onnx_file(tmp_path / "misnamed.tflite")) == "ONNX"
    assert door(litert_file(tmp_path / "misnamed.onnx")) == "LiteRT"
    (tmp_path / "notes.txt").write_text("no model")
    assert door(tmp_path / "notes.txt") is None
    assert door(tmp_path / "none") is None


@pytest.mark.parametrize(("name", "error"), [("a.onnx", OnnxError), ("a.tflite", LiteRtError)])
def test_a_suffix_without_the_content_is_said_by_its_door(
    tmp_path: Path, name: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"[Nn]o such file"):
        load(str(tmp_path / name))
    (tmp_path / name).write_text("no model")
    with pytest.raises(error, match=name):
        load(str(tmp_path / name))


def test_other_files_are_refused_with_what_a_model_is(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="an ONNX or LiteRT file"):
        get_model(str(tmp_path / "none"))


def test_an_int8_file_gives_what_its_own_framework_gives(tmp_path: Path) -> None:
    path = litert_file(tmp_path / "net.tflite")
    found = get_model(str(path))
    assert found.info["policy"] == "pt2e"
    imported = found.imported()
    (port,), (out,) = imported.inputs, imported.outputs
    image = compile_graph(imported.graph, preset("small"))
    codes = np.random.default_rng(1).integers(-128, 128, port.shape).astype(np.int8)
    device = GoldenDevice(preset("small"))
    device.load(image)
    device.write(port.name, codes)
    device.run()
    (wanted,) = run_litert(path.read_bytes(), [codes])
    assert np.array_equal(device.read(out.name).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("make", [onnx_file, litert_file])
@pytest.mark.parametrize("command", ["run", "compile", "profile"])
def test_commands_take_the_file(tmp_path: Path, make: object, command: str) -> None:
    path = make(tmp_path / "net")  # type: ignore[operator]
    options = {"run": [], "compile": ["-o", str(tmp_path / "net.npu")], "profile": ["-d", "golden"]}
    done = CliRunner().invoke(app, [command, str(path), "-c", "small", *options[command]])
    assert done.exit_code == 0, done.output


def open_onnx_file(path: Path) -> Path:
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)) / 5
    inputs = [value("x", ("n", 3, "h", "w"))]
    onnx.save(model([("Conv", ["x", "w"], ["y"])], inputs, arrays=[array("w", weights)]), path)
    return path


def open_litert_file(path: Path) -> Path:
    file = LiteRtFile()
    x, y = file.input((1, 4, 4, 3), name="x"), file.tensor((1, 4, 4, 3))
    for tensor in (x, y):
        file.graph.tensors[tensor].shapeSignature = [1, -1, -1, 3]
    file.operator("RELU", [x], [y])
    file.output(y)
    path.write_bytes(file.data())
    return path


def test_commands_give_the_sizes_that_files_leave_open(tmp_path: Path) -> None:
    for path, sizes, said in (
        (open_onnx_file(tmp_path / "a.onnx"), "1x3x6x7", "1×3×6×7 → 1×4×4×5"),
        (open_litert_file(tmp_path / "a.tflite"), "1x6x7x3", "1×6×7×3 → 1×6×7×3"),
    ):
        options = ["run", str(path), "--input-shape", f"x={sizes}", "-c", "tiny"]
        done = CliRunner().invoke(app, options)
        assert done.exit_code == 0, done.output
        assert said in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1x3", "--input-shape 1x3: must be NAME=SIZExSIZE…, as x=1x3x224x224"),
        ("x=1x0", "--input-shape x=1x0: must be NAME=SIZExSIZE…"),
        ("x=-1", "--input-shape x=-1: must be NAME=SIZExSIZE…"),
    ],
)
def test_shapes_of_another_form_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        input_shapes([text])
    assert str(caught.value).startswith(message)


def test_shapes_go_with_files_that_leave_sizes_open(tmp_path: Path) -> None:
    given = Supplied(shapes=(("x", (1, 2, 3, 3)),))
    fixed = litert_file(tmp_path / "a.tflite")
    with pytest.raises(LiteRtError, match=r"no input 'x'\n  hint: the inputs are"):
        load(str(fixed), given)
    with pytest.raises(LiteRtError, match=r"shape \[1, 2, 3\] of an input of \[1, -1, -1, 3\]"):
        load(
            str(open_litert_file(tmp_path / "b.tflite")), replace(given, shapes=(("x", (1, 2, 3)),))
        )
    with pytest.raises(OnnxError, match=r"shape \[1, 2, 3, 3\] of input 'x': the model has"):
        load(str(open_onnx_file(tmp_path / "b.onnx")), given)
    with pytest.raises(OptionError, match="--input-shape: model digits has its own shape"):
        get_model("digits", given)
    with pytest.raises(OptionError, match=r"--input-shape: a\.py:f has the shapes of its example"):
        load("a.py:f", given)

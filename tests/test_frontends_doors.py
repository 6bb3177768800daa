"""Files of other frameworks on the command line: known by content, through the one importer."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from litert_files import run_litert
from litert_networks import cnn
from onnx_models import array, model
from typer.testing import CliRunner

from spec import preset
from sw.cli.main import app
from sw.compiler import compile_graph
from sw.frontends.doors import door_of
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.onnx import OnnxError
from sw.models.catalog import ModelError, get_model
from sw.models.user import load
from sw.runtime.golden import GoldenDevice


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

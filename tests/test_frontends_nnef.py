"""NNEF models: what Khronos' interpreter computes, through the one importer; what is refused."""

import json
import struct
import sys
import tarfile
from pathlib import Path

import nnef
import nnef_cases
import numpy as np
import pytest
import torch
from nnef_cases import CALLS, NETWORK, WEIGHTS, interpreted, library, pack, values, write
from typer.testing import CliRunner

import systola
from sw.cli.main import app
from sw.frontends.doors import door_of
from sw.frontends.nnef import NnefError, is_nnef, load_nnef
from sw.frontends.nnef.operators.table import ROWS
from sw.frontends.nnef.parsing import LOWERED, parse
from sw.models.user import load

X = values((1, 3, 8, 8))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return write(tmp_path_factory.mktemp("nnef") / "net")


def refused(folder: Path, text: str, weights=WEIGHTS) -> str:
    with pytest.raises(NnefError) as raised:
        load_nnef(write(folder, text, weights))
    return str(raised.value)


def one(call: str, shape=(2, 4)) -> str:
    """A graph of one operation."""
    given = f"x = external(shape = {list(shape)})"
    return f"version 1.0; graph one(x) -> (y) {{ {given}; {call}; }}"


def computed(model, *inputs):
    found = model.module(*map(torch.from_numpy, inputs))
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


# Operations ---------------------------------------------------------------------------------------


def test_every_operation_has_a_call():
    assert {kind for kind, *_ in CALLS} == {*ROWS, *LOWERED}


def test_every_operation_computes_what_khronos_interpreter_does(tmp_path):
    chosen = [call for call in CALLS if call[1] not in nnef_cases.NOT_INTERPRETED]
    folder = write(tmp_path / "library", library(chosen), {})
    inputs = [values(shape, *ends) for _, _, shape, ends in chosen]
    wanted = interpreted(folder, *inputs, lowered=nnef_cases.BY_DEFINITION)
    found = computed(load_nnef(folder), *inputs)
    for (_, call, *_), a, b in zip(chosen, found, wanted, strict=True):
        assert a.shape == b.shape, call
        np.testing.assert_allclose(a, b, atol=1e-5, err_msg=call)


def test_aligned_corners_are_pytorchs(tmp_path):
    call = "y = multilinear_upsample(x, factor = [2, 2], method = 'aligned')"
    x = values((1, 2, 3, 4))
    (found,) = computed(load_nnef(write(tmp_path / "m", one(call, x.shape), {})), x)
    exact = torch.nn.functional.interpolate(
        torch.from_numpy(x), scale_factor=2, mode="bilinear", align_corners=True
    )
    np.testing.assert_allclose(found, exact.numpy(), atol=1e-6)


def test_fragments_of_the_users_are_taken_apart_by_the_parser(tmp_path):
    text = """version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
fragment twice(x: tensor<scalar>) -> (y: tensor<scalar>) { y = x + x; }
graph one(x) -> (y) { x = external(shape = [2, 4]); z = twice(x); y = relu(z); }
"""
    x = values((2, 4))
    (found,) = computed(load_nnef(write(tmp_path / "m", text, {})), x)
    np.testing.assert_allclose(found, np.maximum(2 * x, 0))


# Networks -----------------------------------------------------------------------------------------


def test_a_network_computes_what_khronos_interpreter_does(network):
    model = load_nnef(network)
    assert (model.inputs, model.outputs) == (("x",), ("y",))
    np.testing.assert_allclose(computed(model, X)[0], interpreted(network, X)[0], atol=1e-6)


@pytest.mark.rtl
def test_a_network_runs_on_the_rtl_as_the_golden_model_does(network):
    model, calls = (
        load_nnef(network),
        [(torch.from_numpy(values(X.shape, seed=i)),) for i in range(4)],
    )
    program = systola.compile(model.module, calls[0], systola.preset("tiny"), calibration=calls)
    given = program.inputs(torch.from_numpy(X))
    golden = systola.run(program.image, given)
    (found,) = program.outputs(golden)
    assert np.corrcoef(found.ravel(), interpreted(network, X)[0].ravel())[0, 1] > 0.999
    for name, array in systola.run(program.image, given, device="rtl").items():
        assert np.array_equal(array, golden[name])


def test_folder_file_and_archive_are_the_same_model(network, tmp_path):
    archive = pack(network, tmp_path / "net.nnef.tgz")
    inside = tmp_path / "below.tar"
    with tarfile.open(inside, "w") as file:
        file.add(network, "./some/net")
    (wanted,) = computed(load_nnef(network), X)
    for path in (network / "graph.nnef", archive, inside):
        assert is_nnef(path) and door_of(path).name == "NNEF"
        assert np.array_equal(load(str(path)).model(torch.from_numpy(X)).numpy(), wanted)


def test_the_command_line_runs_a_folder(network, tmp_path):
    report = tmp_path / "report.json"
    options = ["--config", "tiny", "--json", str(report)]
    done = CliRunner().invoke(app, ["run", str(network), *options])
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text())["pcc_fp32"] > 0.999


def test_content_and_not_the_name_says_what_is_nnef(tmp_path):
    (tmp_path / "a.nnef").write_text("no graph")
    (tmp_path / "b").write_text("# comment\n version 1.0;\n graph a(x) -> (y) {}")
    (tmp_path / "c.tgz").write_bytes(b"\x1f\x8b" + bytes(100))
    (tmp_path / "folder").mkdir()
    assert [is_nnef(tmp_path / n) for n in ("a.nnef", "b", "c.tgz", "folder", "none")] == [
        *(False, True, False, False, False)
    ]
    assert door_of(tmp_path / "folder") is None


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["../secret", "/secret", "link", "a/../../secret", "none"])
def test_values_outside_of_the_folder_are_not_read(tmp_path, label):
    folder = write(tmp_path / "net")
    with (tmp_path / "secret.dat").open("wb") as file:
        nnef.write_tensor(file, values((8, 3, 3, 3)))
    (folder / "link.dat").symlink_to(tmp_path / "secret.dat")
    text = NETWORK.replace("stem/weight", label)
    message = refused(folder, text)
    assert f"operation variable w: its values are in '{label}.dat', which is not in" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:100], "no tensor of NNEF"),
        (lambda d: b"xx" + d[2:], "no tensor of NNEF"),
        (lambda d: d[:2] + b"\x02\x00" + d[4:], "version 2.0, not 1.0"),
        (lambda d: d[:-4], "988 bytes, the header says 992"),
        (lambda d: d[:12] + struct.pack("<I", 9) + d[16:], r"shape [9, 3, 3, 3], the graph says"),
        (lambda d: d[:8] + struct.pack("<I", 9) + d[12:], "shape [8, 3, 3, 3, 0, 0, 0, 0], the"),
        (lambda d: d[:48] + struct.pack("<I", 2) + d[52:], "its values are quantized"),
        (lambda d: d[:48] + struct.pack("<I", 7) + d[52:], "values of code 7 with 32 bits"),
        (lambda d: d[:44] + struct.pack("<I", 16) + d[48:], "864 bytes of 216 values of 16 bits"),
    ],
)
def test_damaged_values_are_refused(tmp_path, change, message):
    folder = write(tmp_path / "net")
    path = folder / "stem/weight.dat"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(NnefError) as raised:
        load_nnef(folder)
    assert f"stem/weight.dat: {message}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version 1.0; graph", "it cannot be parsed"),
        (one("y = rulu(x)"), "it cannot be parsed: "),
        (one("y = roi_resample(x, x, x, output_size = [1])"), "it cannot be parsed"),
        (one("y = relu(z); z = relu(y)"), "it cannot be parsed"),
        (one("y = relu(x); y = relu(x)"), "it cannot be parsed"),
        (one("y = relu(x)", (0, 4)), "operation external x: shape [0, 4]"),
        (one("y = relu(x)", (1 << 20, 1 << 20)), "operation external x: shape [1048576, 1048576]"),
        (one("y = tile(x, repeats = [1000000, 1000])"), "operation tile y: more than 268,435,456"),
        (one("y = argmax_pool(x, size = [1, 1])"), "operation argmax_pool is not taken"),
        (one("y = reshape(x, shape = [3, 3])"), "operation reshape y: PyTorch cannot compute it"),
        (one("y = softmax(x, axes = [0, 1])"), "a softmax over dimensions [0, 1]"),
        (one("y = max_pool(x, size = [2, 2], border = 'ignore')"), "of a pool over [2, 4]"),
        (one("y = slice(x, axes = [5], begin = [0], end = [1])"), "axes [5] of [2, 4]"),
        (one("y = linear_quantize(x, 0.0, 1.0, bits = 8)"), "linear_quantize is not taken"),
    ],
)
def test_what_cannot_be_taken_is_named(tmp_path, text, message):
    assert message in refused(tmp_path / "net", text, {})


def test_quantized_models_are_refused_by_the_tensor(tmp_path):
    folder = write(tmp_path / "net")
    quant = '"c": linear_quantize(min = 0.0, max = 1.0, bits = 8);\n'
    (folder / "graph.quant").write_text(quant)
    with pytest.raises(NnefError, match=r"graph\.quant quantizes 'c'.*\n  hint: export the model"):
        load_nnef(folder)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(NnefError, match="cannot read: No such file"):
        load_nnef(tmp_path / "none.nnef")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NnefError, match="cannot read: No such file"):
        load_nnef(tmp_path / "empty")
    (tmp_path / "cut.tgz").write_bytes(
        pack(write(tmp_path / "n"), tmp_path / "a").read_bytes()[:900]
    )
    with pytest.raises(NnefError):
        load_nnef(tmp_path / "cut.tgz")


def test_a_parser_that_dies_is_an_error_of_the_file(monkeypatch):
    monkeypatch.setattr("sw.frontends.nnef.parsing._CHILD", "import os; os.abort()")
    with pytest.raises(NnefError, match="the parser of NNEF ended with code -6"):
        parse(b"version 1.0;", None)


def test_without_the_package_a_message_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "nnef.py").write_text("raise ImportError('none')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(NnefError, match=r"hint: pip install 'systola\[nnef\]'"):
        parse(b"version 1.0;", None)

"""`systola compile|run FILE.tosa`: files in, integers out."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import systola
from compiler_graphs import rescale

from spec.config import preset
from spec.program import load_image
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.measure.profile.run import target_graph
from sw.measure.tosa_runs import compile_tosa, read_inputs, run_tosa
from sw.runtime.arrays import ArrayFileError
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import DeviceOptions, run_image


def _graph() -> Graph:
    """Two inputs, two outputs, constants of two types."""
    g = Graph(name="two")
    x, y = g.add_input("x", (1, 3, 4, 5)), g.add_input("y", (1, 3, 4, 5), "int32")
    total = g.add_op("ADD", [rescale(g, x, 2.0, 0, "int32"), y], name="total")
    g.outputs = [rescale(g, total, 0.25), g.add_op("CLAMP", [x], {"min_val": -9, "max_val": 9})]
    return g


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tosa")
    (path / "two.tosa").write_bytes(to_flatbuffer(_graph()))
    rng = np.random.default_rng(5)
    np.save(path / "x.npy", rng.integers(-128, 128, (1, 3, 4, 5)).astype(np.int8))
    np.save(path / "y.npy", rng.integers(-(2**20), 2**20, (1, 3, 4, 5)))  # int64: the values fit
    return path


def _expected(folder: Path) -> dict[str, np.ndarray]:
    inputs = {n: np.load(folder / f"{n}.npy") for n in "xy"}
    return run_graph(_graph(), {"x": inputs["x"], "y": inputs["y"].astype(np.int32)})


def test_run_computes_what_the_file_says(folder: Path) -> None:
    out = folder / "out"
    code, text, errors = systola(
        "run", folder / "two.tosa", "--input", folder / "x.npy", "--input", folder / "y.npy",
        "--config", "tiny", "--verify", "--out", out,
    )  # fmt: skip
    assert code == 0, errors
    assert "reference" in text
    for name, want in _expected(folder).items():
        np.testing.assert_array_equal(np.load(out / f"{name}.npy"), want)


def test_compile_writes_an_image_that_computes_it(folder: Path) -> None:
    config = preset("tiny")
    compile_tosa(folder / "two.tosa", config).save(folder / "two.systola")
    image = load_image(folder / "two.systola")
    inputs = read_inputs(image, [Path(f"y={folder}/y.npy"), folder / "x.npy"], seed=0)
    outputs, _ = run_image(image, inputs, GoldenDevice(config))
    for name, want in _expected(folder).items():
        np.testing.assert_array_equal(outputs[name], want)


def test_verify_compares_it_with_the_reference_model(folder: Path) -> None:
    code, text, errors = systola("verify", folder / "two.tosa", "--config", "tiny")
    assert code == 0, errors
    assert "PASS  golden model = TOSA reference model: 120 elements" in text


def test_inputs_without_a_file_are_random_and_repeatable(folder: Path) -> None:
    image = compile_tosa(folder / "two.tosa", preset("tiny"))
    first, again = (read_inputs(image, [folder / "x.npy"], seed=4) for _ in range(2))
    np.testing.assert_array_equal(first["x"], np.load(folder / "x.npy"))
    np.testing.assert_array_equal(first["y"], again["y"])
    assert len(np.unique(first["y"])) > 10


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((1, 3, 4), np.int8), "shape [1, 3, 4]; input x is [1, 3, 4, 5]"),
        (np.full((1, 3, 4, 5), 200), "value 200 at [0, 0, 0, 0]; input x is int8"),
        (np.zeros((1, 3, 4, 5)), "holds float64; input x takes whole numbers of type int8"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(folder: Path, array: np.ndarray, message: str) -> None:
    np.save(folder / "wrong.npy", array)
    with pytest.raises(ArrayFileError) as caught:
        run_tosa(
            folder / "two.tosa",
            [folder / "wrong.npy"],
            preset("tiny"),
            DeviceOptions(device="golden"),
        )
    assert str(caught.value) == f"--input {folder}/wrong.npy: {message}"


def test_what_does_not_go_with_a_file_is_refused(folder: Path) -> None:
    code, _, errors = systola("run", folder / "two.tosa", "--limit", 3)
    assert code == 2
    assert "--limit" in errors
    assert "is a graph of integers" in errors
    code, _, errors = systola("compile", folder / "none.tosa")
    assert (code, errors) == (
        2, f"systola: {folder}/none.tosa: cannot read: No such file or directory\n"
    )  # fmt: skip


def test_profiles_take_a_file_with_random_integers(folder: Path) -> None:
    graph, arrays, text = target_graph(str(folder / "two.tosa"), None, 3)
    assert [op.kind for op in graph.ops] == [op.kind for op in _graph().ops]
    assert {name: (a.dtype, a.shape) for name, a in arrays.items()} == {
        "x": (np.int8, (1, 3, 4, 5)),
        "y": (np.int32, (1, 3, 4, 5)),
    }
    assert text == "x[1×3×4×5] y[1×3×4×5]"
    assert len(np.unique(arrays["y"])) > 30

"""`systola sim file.py:kernel`: arguments as text, a run on random inputs, refusals."""

import json

import pytest
from kernel_examples import FOLDER, example
from typer.testing import CliRunner

from sw.cli.main import app
from sw.language.command import arguments_of
from sw.language.errors import KernelError
from sw.language.types import int8, int16

MATMUL = f"{FOLDER / 'matmul.py'}:matmul"


def run(*arguments):
    return CliRunner().invoke(app, ["sim", *arguments])


def test_arguments_are_sizes_numbers_and_lists():
    found = arguments_of(example("matmul"), "a=64x32, b=int16:32x8, scale=0.5, tile=[8,16,32]")
    assert found == {
        "a": int8[64, 32],
        "b": int16[32, 8],
        "scale": 0.5,
        "tile": [8, 16, 32],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64x32", "is not of the form name=value"),
        ("a=64by32", "a tensor is given as 64x32, or int16:64x32"),
        ("scale=half", "neither a number nor a list of numbers"),
    ],
)
def test_arguments_that_say_nothing_are_refused(text, message):
    with pytest.raises(KernelError, match=message):
        arguments_of(example("matmul"), text)


def test_a_kernel_of_a_file_runs_on_random_inputs(tmp_path):
    report = tmp_path / "report.json"
    shape = "a=16x24,b=24x8,scale=0.01"
    done = run(MATMUL, "--shape", shape, "--device", "golden", "--json", str(report))
    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    assert (found["name"], found["macs"]) == ("matmul", 16 * 24 * 8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            MATMUL.replace(":matmul", ":matmull"),
            "has no function 'matmull' (did you mean 'matmul'?)",
        ),
        (MATMUL.replace(":matmul", ":tiles"), "is a function; `sim` takes what @systola.kernel"),
        ("nowhere.py:matmul", "nowhere.py: no such file"),
    ],
)
def test_what_is_no_kernel_is_refused(name, message):
    done = run(name, "--device", "golden")
    assert done.exit_code != 0
    assert message in " ".join(str(done.exception or done.output).split())

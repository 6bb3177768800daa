"""A user's own models: the page about them, saved programs, and what is refused how."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_helpers import ROOT
from torch import nn

from spec import preset
from spec.errors import SystolaError
from sw.cli.main import main
from sw.compiler.errors import CompileError
from sw.measure.model_runs import run_model
from sw.measure.partitioned_run import run_partitioned, save_partitioned
from sw.models.catalog import ModelError, get_model
from sw.models.samples import SampleError
from sw.models.supplied import Supplied
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import DeviceOptions

PAGE = (ROOT / "docs" / "models.md").read_text()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A folder with the page's model and inputs for it."""
    (code,) = re.findall(r"`my_model.py`:\n\n```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "my_model.py").write_text(code)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(3, 3, 32, 32)).astype(np.float32))
    np.save(tmp_path / "data.npy", rng.normal(size=(8, 3, 32, 32)))
    return tmp_path


def _commands() -> list[list[str]]:
    (block,) = re.findall(r"```\n(systola run .*?)```", PAGE, re.S)
    return [line.partition("#")[0].split()[1:] for line in block.splitlines()]


def test_the_commands_of_the_page_run(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(page)
    commands = [c for c in _commands() if "rtl" not in c]
    assert [c[0] for c in commands] == ["run", "verify", "quantize", "run"]
    for command in commands:
        report = page / "report.json"
        extra = ["--config", "tiny", "--json", report] if command[0] != "quantize" else []
        with pytest.raises(
            SystemExit
        ) as end:  # in this process: each start of PyTorch costs seconds
            main([*command, *map(str, extra)])
        out = capsys.readouterr().out
        assert not end.value.code, out
        if command[0] == "run":
            facts = json.loads(report.read_text())
            assert facts["images"] == 3
            assert facts["pcc"] > 0.999
    assert "PASS" not in out and "DONE on golden alone" in out
    (result,) = (np.load(f) for f in (page / "results").iterdir())
    assert result.shape == (3, 4) and result.dtype == np.float32


def test_outputs_are_those_of_the_float_module(page: Path) -> None:
    model = get_model(
        f"{page}/my_model.py:make_model",
        Supplied(inputs=(page / "x.npy",), calibration=(page / "data.npy",)),
    )
    assert model.count == 3 and model.info["calibration_samples"] == 8
    report = run_model(model, GoldenDevice(preset("tiny")))
    assert report.extra["pcc_fp32"] > 0.99
    namespace: dict = {}
    exec((page / "my_model.py").read_text(), namespace)
    with torch.no_grad():
        want = namespace["make_model"]().eval()(torch.from_numpy(np.load(page / "x.npy")))
    np.testing.assert_allclose(model.logits_fp32(3), want.numpy(), atol=1e-5)


class Two(nn.Module):
    """Two arguments; one run takes two samples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.head = nn.Linear(5, 3)

    def forward(self, image, vector):
        return torch.relu(self.conv(image)).mean((2, 3)) + self.head(vector)


def _save_pt2(folder: Path, module: nn.Module, *examples: torch.Tensor) -> Path:
    path = folder / "program.pt2"
    torch.export.save(torch.export.export(module.eval(), examples), path)
    return path


def test_a_saved_program_runs_on_its_example_inputs_and_on_others(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = _save_pt2(tmp_path, Two(), torch.randn(2, 2, 8, 8), torch.randn(2, 5))
    model = get_model(str(path))
    assert (model.batch, model.count, model.name) == (2, 2, "program")
    report = run_model(model, GoldenDevice(preset("tiny")))
    assert report.extra["images"] == 2 and report.extra["pcc"] > 0.99
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(6, 2, 8, 8)))
    np.save(tmp_path / "b.npy", np.random.default_rng(1).normal(size=(6, 5)))
    files = (tmp_path / "a.npy", tmp_path / "b.npy")
    model = get_model(str(path), Supplied(inputs=files, calibration=files))
    assert run_model(model, GoldenDevice(preset("tiny"))).extra["images"] == 6
    with pytest.raises(ModelError, match="--limit 3: model program runs 2 samples at a time"):
        run_model(model, GoldenDevice(preset("tiny")), limit=3)
    with pytest.raises(ModelError, match="batch 3: model program takes multiples of 2 samples"):
        model.imported(3)


def test_a_quantized_file_takes_other_inputs_and_then_knows_no_results(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = get_model(str(_save_pt2(tmp_path, nn.Linear(5, 3), torch.randn(4, 5))))
    file = tmp_path / "m.safetensors"
    model.stored.save(file)
    x = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    other = get_model(str(file), Supplied(inputs=(tmp_path / "x.npy",)))
    assert (other.count, other.runs, other.compared) == (8, 8, ())
    assert run_model(other, GoldenDevice(preset("tiny"))).extra == {"images": 8}
    with pytest.raises(ModelError, match="PyTorch's results of these inputs are not known"):
        other.logits_pt2e(1)
    with pytest.raises(ModelError, match=r"--calib: model .* is quantized already"):
        get_model(str(file), Supplied(calibration=(tmp_path / "x.npy",)))


FILES = {
    "raises.py": "def make():\n    x = 1\n    raise KeyError('weights')\n",
    "syntax.py": "def make(:\n",
    "number.py": "def make():\n    return 3\n",
    "plain.py": "from torch import nn\ndef make():\n    return nn.Linear(4, 2)\nVALUE = 1\n",
    "integers.py": (
        "import torch\ndef make():\n    return torch.nn.Linear(4, 2), torch.zeros(1, 4).int()\n"
    ),
    "text.py": "from torch import nn\ndef make():\n    return nn.Linear(4, 2), 'x'\n",
    "sort.py": (
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x.cummax(-1)[0]\ndef make():\n    return Net()\n"
    ),
    "rows.py": (
        "import torch\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n"
        "        return super().forward(x)[x[:, 0] > 0]\n"
        "def make():\n    return Net(4, 2), torch.randn(6, 4)\n"
    ),
    "garbage.pt2": "no zip file",
}
REFUSED = {
    "no file": ("nowhere.py:make", "", "nowhere.py: no such file"),
    "no program": ("nowhere.pt2", "", "nowhere.pt2: no such file"),
    "no function": ("plain.py:build", "", "plain.py has no function 'build'; it has make"),
    "no callable": ("plain.py:VALUE", "", "plain.py has no function 'VALUE'; it has make"),
    "raises": ("raises.py:make", "", "raises.py:make: KeyError: 'weights' at "),
    "line": ("raises.py:make", "", "raises.py:3"),
    "syntax": ("syntax.py:make", "", "syntax.py:make: SyntaxError"),
    "type": ("number.py:make", "", "returned int; it must return a torch.nn.Module"),
    "no inputs": ("plain.py:make", "", "the inputs of this model are not known; give --input"),
    "integers": ("integers.py:make", "", "the model fails on its inputs: mat1 and mat2 must have"),
    "example": ("text.py:make", "", "example inputs must be a tensor, a sequence of arguments"),
    "garbage": ("garbage.pt2", "", "garbage.pt2: no program of torch.export.save: "),
    "no array": ("plain.py:make", "garbage.pt2", "no readable .npy file"),
    "no samples": (
        "plain.py:make",
        "scalar.npy",
        "both arguments to linear need to be at least 1D",
    ),
    "texts": (
        "plain.py:make",
        "texts.npy",
        "holds elements of type <U1; one array of numbers is needed",
    ),
    "not finite": (
        "plain.py:make",
        "nan.npy",
        "nan.npy: value nan at [0, 3]; it takes finite numbers",
    ),
}
ARRAYS = {
    "scalar.npy": np.float32(1),
    "texts.npy": np.array(["a"]),
    "nan.npy": np.array([[1, 2, 3, np.nan], [1, 2, 3, 4]], np.float32),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    for name, text in FILES.items():
        (path / name).write_text(text)
    for name, array in ARRAYS.items():
        np.save(path / name, array)
    return path


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, data, message = REFUSED[case]
    monkeypatch.chdir(folder)
    with pytest.raises(SystolaError) as caught:
        get_model(name, Supplied(inputs=(Path(data),) if data else ()))
    assert message in str(caught.value)


def test_an_unsupported_operator_names_the_line_of_the_users_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(folder / "x.npy", np.ones((2, 4), np.float32))
    monkeypatch.chdir(folder)
    with pytest.raises(CompileError) as caught:
        get_model("sort.py:make", Supplied(inputs=(Path("x.npy"),)))
    assert "operator aten.cummax.default is not supported" in str(caught.value)
    assert "sort.py:4: return x.cummax(-1)[0]" in str(caught.value)


def test_a_shape_that_depends_on_values_is_refused_or_left_to_the_cpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(CompileError) as caught:
        get_model("rows.py:make")
    assert str(caught.value).startswith("index: indices of bool: the result's size depends on them")
    assert "--fallback, or systola.partition, runs this operator on the CPU" in str(caught.value)
    x = np.array([[1, 2, 0, -1], [-5, 1, 1, 1]], np.float32)
    np.save("rows.npy", np.stack([x[[0, 0, 0, 0, 1, 1]], x[[0, 1, 1, 1, 1, 1]]]).reshape(12, 4))
    given, golden = Supplied(inputs=(Path("rows.npy"),)), DeviceOptions(device="golden")
    found = run_partitioned("rows.py:make", given, preset("tiny"), golden, None)
    index = next(n for n in found.module.data["nodes"] if n["name"] == "index")
    assert (index["where"], index["reason"]) == ("cpu", "dynamic shape [u0, 2]")
    assert [run[0].shape for run in found.outputs] == [(4, 2), (1, 2)]
    assert found.figures["pcc_fp32"][0] >= 0.999
    save_partitioned(found, folder / "saved")
    assert np.load(folder / "saved" / "output_0_1.npy").shape == (1, 2)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(3, 2, 8, 8)], "--input: 1 files given, the model takes 2 inputs"),
        ([(3, 2, 8, 8), (3, 5)], "shape [3, 2, 8, 8]; the model takes [2, 2, 8, 8], or a multiple"),
        ([(2, 2, 8, 9), (2, 5)], "shape [2, 2, 8, 9]; the model takes [2, 2, 8, 8]"),
        ([(2, 2, 8, 8), (4, 5)], "--input: different numbers of samples: "),
    ],
)
def test_inputs_must_fit_the_example(
    tmp_path: Path, shapes: list[tuple[int, ...]], message: str
) -> None:
    path = _save_pt2(tmp_path, Two(), torch.randn(2, 2, 8, 8), torch.randn(2, 5))
    files = [tmp_path / f"{i}.npy" for i in range(len(shapes))]
    for file, shape in zip(files, shapes):
        np.save(file, np.zeros(shape, np.float32))
    with pytest.raises(SampleError) as caught:
        get_model(str(path), Supplied(inputs=tuple(files)))
    assert message in str(caught.value)

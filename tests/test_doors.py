"""Every operator of the table through every door: one policy gives one TOSA graph.

A door is an entry for models: `run`, `compile`, `torch.compile`, a `.pt2` file.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from aten_cases import CASES, Case
from aten_cases_rewritten import REWRITTEN_CASES
from torch import nn

import systola
from spec import preset
from sw.cli.main import main
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.operators import TABLE
from sw.compiler.tosa.digest import graph_digest
from sw.models.supplied import Supplied
from sw.models.user import build_user_model
from sw.torch_backend.fallback import partition_model

TINY = preset("tiny")
Samples = tuple[torch.Tensor, ...]


def _compile(module: torch.nn.Module, sample: Samples, policy: str, _: Path) -> str:
    """`systola.compile` of a module."""
    return graph_digest(systola.compile(module, sample, TINY, policy=policy).imported.graph)


def _program(module: torch.nn.Module, sample: Samples, policy: str, _: Path) -> str:
    """`systola.compile` of an `ExportedProgram`."""
    program = torch.export.export(module, sample, strict=False)
    return graph_digest(systola.compile(program, (), TINY, policy=policy).imported.graph)


def _saved(module: torch.nn.Module, sample: Samples, policy: str, folder: Path) -> str:
    """`systola run program.pt2`, `quantize`, `profile`, `validate`, `diff`: all build it so."""
    path = folder / "program.pt2"
    torch.export.save(torch.export.export(module, sample, strict=False), path)
    built = build_user_model(str(path), Supplied(policy=policy))  # type: ignore[arg-type]
    return graph_digest(built.model.imported.graph)


def _fallback(module: torch.nn.Module, sample: Samples, policy: str, _: Path) -> str:
    """`systola run --fallback`."""
    split = partition_model(capture(module, sample), TINY, policy=policy)  # type: ignore[arg-type]
    (part,) = split.data["parts"]
    return str(part["tosa_digest"])


def _dynamo(module: torch.nn.Module, sample: Samples, policy: str, _: Path) -> str:
    """`torch.compile`."""
    torch._dynamo.reset()
    options = {"config": TINY, "policy": policy, "cache": False}
    compiled = torch.compile(module, backend="systola", options=options)
    with torch.no_grad():
        compiled(*sample)
    (graph,) = systola.compile_report(compiled).data["graphs"]
    (part,) = graph["variants"][0]["parts"]
    return str(part["tosa_digest"])


Door = Callable[[torch.nn.Module, Samples, str, Path], str]
DOORS: dict[str, Door] = {
    "compile": _compile,
    "program": _program,
    "pt2": _saved,
    "fallback": _fallback,
    "torch.compile": _dynamo,
}


class Rows(nn.Module):
    """Rows of the table side by side, each with results that the NPU computes as float."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.rows = nn.ModuleList([case.graph() for case in cases])
        self.counts = [len(case.inputs) for case in cases]

    def forward(self, *inputs: torch.Tensor) -> Samples:
        results = []
        for row, count in zip(self.rows, self.counts, strict=True):
            results.append(torch.tanh(row(*inputs[:count]).to(torch.float32)))
            inputs = inputs[count:]
        return tuple(results)


ROWS = list({case.name: case for case in [*REWRITTEN_CASES, *reversed(CASES)]}.values())
"""One case of each operator."""


def test_every_row_of_the_table_goes_through_the_doors() -> None:
    assert {case.name for case in ROWS} == set(TABLE)


@pytest.mark.parametrize("first", range(0, len(ROWS), 28))
def test_every_operator_gives_the_same_graph_at_every_door(first: int, tmp_path: Path) -> None:
    cases = ROWS[first : first + 28]
    torch.manual_seed(1)
    module = Rows(cases).eval()
    sample = tuple(x.make() for case in cases for x in case.inputs)
    found = {key: door(module, sample, "wide", tmp_path) for key, door in DOORS.items()}
    assert found == dict.fromkeys(DOORS, found["compile"]), [case.name for case in cases]


MODULES: dict[str, tuple[nn.Module, Samples]] = {
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8), nn.ReLU6(), nn.Flatten(), nn.Linear(32, 5),
        ).eval(),
        (torch.ones(1, 3, 8, 8).normal_(generator=torch.Generator().manual_seed(1)),),
    ),
    "rows": (
        nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 4)).eval(),
        (torch.ones(3, 12).normal_(generator=torch.Generator().manual_seed(2)),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["auto", "pt2e", "wide"])
@pytest.mark.parametrize("name", MODULES)
def test_a_policy_means_the_same_at_every_door(name: str, policy: str, tmp_path: Path) -> None:
    module, sample = MODULES[name]
    imported = import_model(module, sample, policy=policy)  # type: ignore[arg-type]
    if policy == "auto":
        assert imported.policy == ("pt2e" if name == "convolutions" else "wide")
    found = {key: door(module, sample, policy, tmp_path) for key, door in DOORS.items()}
    assert found == dict.fromkeys(DOORS, graph_digest(imported.graph))


FILE = '''
import torch
from torch import nn


class Pair(nn.Module):
    """An image and rows, in a dictionary; two results, by name."""

    def __init__(self):
        super().__init__()
        self.image, self.rows = nn.Conv2d(3, 4, 3), nn.Linear(6, 4)

    def forward(self, given):
        seen = torch.relu(self.image(given["image"])).mean((2, 3))
        return {"both": seen + self.rows(given["rows"]), "seen": seen}


def make():
    torch.manual_seed(3)
    return Pair(), ({"image": torch.randn(2, 3, 8, 8), "rows": torch.randn(2, 6)},)
'''

COMMANDS = {
    "run": ["-c", "tiny", "--verify"],
    "run with the CPU": ["-c", "tiny", "--fallback"],
    "compile": ["-c", "tiny", "--out", "pair.systola"],
    "verify": ["-c", "tiny"],
    "validate": ["-c", "tiny"],
    "diff": ["-c", "tiny"],
    "diff of layers": ["-c", "tiny", "--fed"],
    "accuracy": ["-c", "tiny", "--device", "golden", "--layers"],
    "quantize": ["--out", "pair.safetensors"],
    "profile": ["-c", "tiny"],
}


@pytest.mark.rtl
@pytest.mark.parametrize("policy", ["pt2e", "wide"])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_take_a_users_model_under_every_policy(
    name: str, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pair.py").write_text(FILE)
    command = [name.split()[0], "pair.py:make", "--policy", policy, *COMMANDS[name]]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert not ended.value.code

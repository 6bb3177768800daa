"""Compiled parts on disk: what hits, what misses, and what is built again."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch_backend_helpers import ROOT, compiled, report

import systola
from sw.compiler.errors import CompileError
from sw.runtime.simulator.cache import BuildCache
from sw.torch_backend.options import parse_options
from sw.torch_backend.stored import graph_text, obtain, part_key


class Model(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.layer(x)).flatten(1)


X = torch.linspace(-1, 1, 32).reshape(4, 8)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))
    return tmp_path / "entries"


@torch.no_grad()
def run(model=None, x=X, **options):
    """(result, the only part of the report) of a fresh compilation."""
    fast = compiled(model or Model(), **{"cache": True, **options})
    y = fast(x)
    (part,) = report(fast)["graphs"][0]["variants"][0]["parts"]
    return y, part, fast


def test_a_second_compilation_has_the_same_integers_from_the_cache(folder):
    first, made, _ = run()
    second, found, fast = run()
    assert (made["cached"], found["cached"]) == (False, True)
    assert made["digest"] == found["digest"] and torch.equal(first, second)
    assert found["verified"] == 1 and len(list(folder.iterdir())) == 1
    assert "from the cache" in " ".join(str(systola.compile_report(fast)).split())


@pytest.mark.parametrize(
    "other",
    [
        {"model": Model(1)},
        {"x": X * 2},
        {"config": "small"},
        {"rows": "always"},
        {"calibration": [X * 3]},
    ],
    ids=str,
)
def test_whatever_decides_the_integers_is_part_of_the_name(other, folder):
    run()
    _, part, _ = run(**other)
    assert not part["cached"] and len(list(folder.iterdir())) == 2


def test_options_of_the_device_and_the_report_share_an_entry(folder, tmp_path):
    run()
    _, part, _ = run(check=False, variants=1, recalibrate=9, report=tmp_path / "r.json")
    assert part["cached"]


def test_samples_and_options_of_quantizing_are_in_the_name():
    module = torch.fx.symbolic_trace(Model())

    def key(samples=((X,),), policy="wide", **options):
        return part_key(module, samples, parse_options(options), policy, "npu_0")

    assert key() == key(verify=True) == key(policy="wide")
    assert len({key(), key(rows="never"), key(((X,), (X,))), key(policy="pt2e")}) == 4


def test_cache_false_writes_nothing(folder):
    run(cache=False)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "how"),
    [("graph.safetensors", "flipped"), ("program.safetensors", "cut"), ("digest", "gone")],
)
def test_damaged_entries_are_built_again(name, how, folder):
    _, made, _ = run()
    (path,) = folder.glob(f"*/{name}")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data if how == "flipped" else data[:-9])
    _, again, _ = run()
    assert not again["cached"] and again["digest"] == made["digest"]
    assert run()[1]["cached"]


def test_a_cache_that_cannot_be_written_only_costs_time(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path / "file"))
    assert not run()[1]["cached"]


def test_an_error_of_the_compiler_passes_and_is_not_tried_twice(folder):
    calls = []

    def build():
        calls.append(1)
        raise CompileError("no")

    with pytest.raises(CompileError, match="no"):
        obtain("torch-x", build)
    assert calls == [1] and not list(folder.iterdir())


def test_threads_that_want_one_part_compile_it_once():
    from sw.torch_backend.stored import Compiled

    _, _, fast = run()
    calls = []
    part = graph_parts(fast)

    def build():
        calls.append(1)
        return Compiled(imported=part._imported, image=part._image)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: obtain("torch-same", build), range(8)))
    assert calls == [1] and sum(not cached for _, cached in found) == 1
    assert len({compiled.digest for compiled, _ in found}) == 1


def graph_parts(fast):
    from sw.torch_backend.entry import ledger

    graphs = [g for g in ledger().graphs() if g.belongs_to(fast._orig_mod.parameters())]
    return graphs[-1].variants[-1].parts[0]


def test_entries_count_for_the_limit_of_the_cache(monkeypatch, folder):
    run()
    assert BuildCache().size() > 1000
    monkeypatch.setenv("SYSTOLA_CACHE_GB", "0")
    run(x=X * 2)
    assert len(list(folder.iterdir())) == 1


SCRIPT = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
from test_torch_backend_cache import run
_, part, _ = run()
print(part["cached"], part["digest"])
"""


def test_another_process_finds_the_entry(folder):
    _, made, _ = run()
    code = SCRIPT.format(tests=str(ROOT / "tests"), root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", made["digest"]]


def test_a_graph_is_the_same_text_in_every_order_of_its_memory():
    texts = {graph_text(torch.fx.symbolic_trace(Model(seed))) for seed in (0, 1)}
    assert len(texts) == 1

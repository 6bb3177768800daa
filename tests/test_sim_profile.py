"""`SYSTOLA_PGO` and `SYSTOLA_QUICK_BUILD`: simulators compiled twice, or in less time."""

import re
import subprocess

import pytest

from spec import preset
from spec.isa import FORMATS, Engine
from sw.compiler import compile_graph
from sw.runtime.simulator import recipe as recipes
from sw.runtime.simulator import training
from sw.runtime.simulator.build import Kind, build_key, npu_recipe
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.counts import counts_of
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.recipe import Recipe, cook

TINY = preset("tiny")
MODULE = """
module top(input clk, output reg [31:0] sum);
  initial sum = 0;
  always @(posedge clk) sum <= sum + 3;
endmodule
"""
MAIN = """
#include <cstdio>
#include "Vtop.h"
int main() {
    Vtop top;
    for (int i = 0; i < 200; ++i) top.clk = i & 1, top.eval();
    std::printf("%u", top.sum);
}
"""


@pytest.mark.rtl
def test_a_program_is_trained_and_compiled_again(tmp_path) -> None:
    (tmp_path / "top.v").write_text(MODULE)
    (tmp_path / "main.cpp").write_text(MAIN)
    recipe = Recipe(
        title="a sum",
        top="top",
        verilog=[tmp_path / "top.v"],
        cpp=[tmp_path / "main.cpp"],
        flags=("--no-timing",),
        make=("OPT_FAST=-O1", "OPT_SLOW=-O0"),
        vpi=False,
    )
    trained = []

    def train(program) -> None:
        trained.append(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
        counts = [
            path for kind in ("gcda", "profraw") for path in program.parent.rglob(f"*.{kind}")
        ]
        assert counts, "it counts nothing"

    cook(recipe, tmp_path, BuildCache(), lambda text: None, train)
    done = subprocess.run([tmp_path / "simulator"], check=True, capture_output=True, text=True)
    assert [done.stdout, *trained] == ["300", "300"]
    log = (tmp_path / "build.log").read_text()
    assert re.search(r"-fprofile-use.*Vtop", log)
    assert "profile count data file not found" not in log


def test_clang_counts_in_its_own_way(monkeypatch, tmp_path) -> None:
    clang = tmp_path / "clang++-99"
    clang.write_text("#!/bin/sh\necho llvm-profdata\n")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = r"clang\+\+-99: no llvm-profdata, which SYSTOLA_PGO=1 needs; .*apt install llvm-99"
    with pytest.raises(BuildError, match=said):
        counts_of(str(clang), "clang version 99", tmp_path)
    (tmp_path / "llvm-profdata").write_text("#!/bin/sh\n")
    (tmp_path / "llvm-profdata").chmod(0o755)
    counts = counts_of(str(clang), "clang version 99", tmp_path)
    (tmp_path / "counts").mkdir()
    (tmp_path / "counts" / "a.profraw").touch()
    ran: list[str] = []
    counts.merge(ran.extend)
    merged = str(tmp_path / "counts.profdata")
    assert ran[1:] == ["merge", "-o", merged, str(tmp_path / "counts" / "a.profraw")]
    assert counts.counting == (counts.link,) == (f"-fprofile-generate={tmp_path / 'counts'}",)
    assert f"-fprofile-use={merged}" in counts.counted


def test_the_profile_is_asked_for_by_the_environment(monkeypatch) -> None:
    monkeypatch.delenv(training.VARIABLE, raising=False)
    plain = {kind: build_key(TINY, kind) for kind in Kind}
    for value, wanted in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(training.VARIABLE, value)
        assert training.profile_wanted() is wanted
        changed = {kind for kind in Kind if build_key(TINY, kind) != plain[kind]}
        assert changed == ({Kind.PERF} if wanted else set())
    monkeypatch.setenv(training.VARIABLE, "yes")
    with pytest.raises(BuildError, match=r"^SYSTOLA_PGO=yes: must be 0 or 1$"):
        training.profile_wanted()


def test_quick_builds_are_one_file_and_entries_of_their_own(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(recipes.QUICK, raising=False)
    plain = {kind: build_key(TINY, kind) for kind in Kind}
    usual = {kind: npu_recipe(TINY, kind, []).compile(tmp_path) for kind in Kind}
    monkeypatch.setenv(recipes.QUICK, "1")
    for kind in Kind:
        assert build_key(TINY, kind) != plain[kind]
        quick = npu_recipe(TINY, kind, []).compile(tmp_path)
        assert recipes.ONE_FILE in quick and recipes.ONE_FILE not in usual[kind]
        level = "-O0" if kind is Kind.DEBUG else "-O1"
        assert [text for text in quick if text.startswith("OPT_FAST=")] == [f"OPT_FAST={level}"]
    monkeypatch.setenv(recipes.QUICK, "2")
    with pytest.raises(BuildError, match=r"^SYSTOLA_QUICK_BUILD=2: must be 0 or 1$"):
        build_key(TINY, Kind.PERF)


@pytest.mark.parametrize("name", ["tiny", "odd", "default"])
def test_the_training_uses_every_engine(name: str) -> None:
    config = preset(name)
    instructions = compile_graph(training.network(), config).instructions()
    assert {FORMATS[i.opcode].engine for i in instructions} == set(Engine)

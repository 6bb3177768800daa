"""Verilator's -Wall over the generated RTL, and the FuseSoC core that offers the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spec import NpuConfig, preset
from sw.runtime.simulator import generated, lint
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.generated import ROOT
from sw.runtime.simulator.verilator import find_verilator

pytestmark = pytest.mark.rtl


def test_settings_reach_the_lint(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(lint, "lint", lambda config: seen.append(config) or 7)
    assert lint.main(["--config", "tiny", "--set", "rows=8", "--set", "cols=8"]) == 0
    assert (seen[0].rows, seen[0].cols) == (8, 8)
    assert capsys.readouterr().out == "tiny+rows=8+cols=8: 7 lines of Verilog, no warnings\n"
    assert lint.main(["--config", "tiny", "--set", "rosw=8"]) == 2
    assert "rosw=8: no such configuration field" in capsys.readouterr().err


@pytest.mark.parametrize("depthwise", [False, True])
def test_the_smallest_parameters_have_no_warnings(depthwise):
    small = {"rows": 2, "cols": 2, "spad_kib": 4, "acc_kib": 1, "bus_bytes": 8, "banks": 4}
    small |= {"param_entries": 4, "queue_depth": 2, "outstanding": 8, "max_burst": 1, "taps": 1}
    small |= {"axi_addr_bits": 32, "vector_lanes": 1 + depthwise, "weight_rows": 1 + depthwise}
    assert lint.lint_form(NpuConfig(**small, depthwise=depthwise), loops=depthwise) > 1000


def test_a_warning_fails_the_lint(monkeypatch, tmp_path):
    def generate(config, folder, *, loops):
        bad = folder / "systola_npu.sv"
        bad.write_text("module systola_npu; logic [3:0] a; wire [1:0] b = a; endmodule\n")
        return [bad]

    monkeypatch.setattr(lint, "generate_rtl", generate)
    with pytest.raises(BuildError, match="lint of tiny failed"):
        lint.lint(preset("tiny"))


def test_generating_rtl_reports_what_went_wrong(monkeypatch, tmp_path):
    broken = tmp_path / "hw_gen"
    broken.mkdir()
    (broken / "__init__.py").touch()
    (broken / "__main__.py").write_text("raise SystemExit('no such block')\n")
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    monkeypatch.setattr(generated, "RTL", tmp_path / "rtl")
    with pytest.raises(BuildError, match="generating the RTL of tiny failed:\nno such block"):
        generated.generate_rtl(preset("tiny"), tmp_path / "out")


@pytest.mark.slow
def test_fusesoc_lints(tmp_path):
    verilator = find_verilator()
    tools = [str(Path(sys.executable).parent), str(verilator.command.parent), os.environ["PATH"]]
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(ROOT), "run"]
    done = subprocess.run(
        [*command, "--target", "lint_tiny", "--work-root", str(tmp_path / "work"), "systola"],
        cwd=tmp_path,
        env={**os.environ, **verilator.env, "PATH": os.pathsep.join(tools)},
        capture_output=True,
        text=True,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-3000:]
    assert "V e r i l a t i o n   R e p o r t" in text, "Verilator must have run"
    assert "%Warning" not in text

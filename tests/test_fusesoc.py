"""FuseSoC's `sim` target runs a program and notices when its results are wrong."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from golden_model import Machine
from spec import preset
from spec.config import PRESETS
from sw.campaign.sweep.cores import write_core
from sw.campaign.sweep.result import PointResult
from sw.cli.export_check import FILES, export, export_kernel
from sw.compiler import compile_graph
from sw.models.kernels import kernel
from sw.runtime.simulator import fusesoc, fusesoc_core
from sw.runtime.simulator.errors import BuildError, SimulationError

RUN = ["+check=check.txt", "+memory=memory.bin", "+control=control.bin"]


def simulate(folder: Path) -> tuple[int, str, dict]:
    """The simulator that FuseSoC built, once more on the files as they are."""
    (folder / fusesoc.RESULT).unlink(missing_ok=True)
    done = subprocess.run(
        [folder / "Vsystola_tb", *RUN], cwd=folder, capture_output=True, text=True, timeout=120
    )
    result = folder / fusesoc.RESULT
    return (
        done.returncode,
        done.stdout + done.stderr,
        json.loads(result.read_text()) if result.exists() else {},
    )


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sim_target_compares_memory_and_fails_where_it_differs(tmp_path: Path) -> None:
    text = fusesoc.run_target("sim_tiny", tmp_path)
    assert "PASS  0 of 245 bytes differ" in text
    result = json.loads((tmp_path / fusesoc.RESULT).read_text())
    assert result["passed"] and result["compared"] == 245 and result["cycles"] > 500

    # Outputs that lie there from the run before are no result of this one.
    code, text, again = simulate(tmp_path)
    assert (code, again) == (0, result), text
    check = (tmp_path / "check.txt").read_text()
    (tmp_path / "check.txt").write_text(check.replace("limit 10000000", "limit 100"))
    code, text, found = simulate(tmp_path)
    assert code == 1 and "status is 1, expected 2, after 100 cycles" in text
    assert found["mismatches"] > 100
    (tmp_path / "check.txt").write_text(check)

    expected = bytearray((tmp_path / "expected.bin").read_bytes())
    expected[7] ^= 1
    (tmp_path / "expected.bin").write_bytes(expected)
    code, text, found = simulate(tmp_path)
    assert code == 1 and f"y: byte 7 is {expected[7] ^ 1}, expected {expected[7]}" in text
    assert "FAIL  1 of 245 bytes differ" in text and not found["passed"]
    # FuseSoC makes the files anew for each run, and passes on how the simulator ends.
    program = tmp_path / "Vsystola_tb"
    program.rename(tmp_path / "simulator")
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(fusesoc.ROOT), "run"]
    done = subprocess.run(
        [*command, "--run", "--target", "sim_tiny", "--work-root", str(tmp_path), "systola"],
        cwd=tmp_path,
        env=fusesoc.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "exited with an error: 1" in done.stderr
    (tmp_path / "simulator").rename(program)

    (tmp_path / "expected.bin").write_bytes(expected[:100])
    assert simulate(tmp_path)[:2] == (
        2,
        "the expected bytes are too few\nusage: +check=FILE +memory=FILE +control=FILE\n",
    )
    (tmp_path / "check.txt").write_text("output y\n")
    code, text, _ = simulate(tmp_path)
    assert code == 2 and text.startswith("cannot read +check\n")


def test_exported_files_hold_the_program_and_what_golden_makes_of_it(tmp_path: Path) -> None:
    config = preset("tiny")
    work = kernel("add", {"h": 2, "w": 3, "c": 5})
    image = compile_graph(work.graph, config)
    export(image, work.inputs, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == set(FILES)
    lines = (tmp_path / "check.txt").read_text().splitlines()
    (output,) = [line.split() for line in lines if line.startswith("output ")]
    want = Machine(config).run(image, work.inputs)["y"]
    assert (tmp_path / "expected.bin").read_bytes() == want.tobytes()
    assert int(output[3]) == want.nbytes == 30
    memory = np.fromfile(tmp_path / "memory.bin", np.uint8)
    at = int(output[2])
    # The results are not there before the run.
    assert (memory[at : at + 30] == 0xA5).all()
    assert image.program.tobytes() in memory.tobytes()
    assert sum(line.startswith("write ") for line in lines) > 10


def test_export_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sw.cli.export_check import main

    assert main(["--kernel", "sub", "--out", str(tmp_path)]) == 2
    assert "kernel 'sub': no such kernel" in capsys.readouterr().err
    export_kernel(preset("tiny"), "add", "h=1,w=1,c=1", tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "check.txt").exists()


FAKE = """
import pathlib, sys
root = pathlib.Path(sys.argv[sys.argv.index("--work-root") + 1])
text = {text!r}
if text:
    (root / "check_result.json").write_text(text)
print("the flow's own words")
sys.exit({code})
"""


@pytest.mark.parametrize(
    ("text", "code", "error", "message"),
    [
        ("", 0, SimulationError, "fusesoc target sim: no result: "),
        ("{", 0, SimulationError, "fusesoc target sim: no result: "),
        ('{"passed": false, "compared": 3}', 0, SimulationError, "'passed': False"),
        ('{"passed": true, "compared": 0}', 0, SimulationError, "'compared': 0"),
        ('{"passed": true, "compared": 3}', 7, BuildError, "target sim failed (exit code 7)"),
    ],
)
def test_a_flow_that_ran_nothing_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int, error, message: str
) -> None:
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE.format(text=text, code=code))
    run = fusesoc.run_guarded
    monkeypatch.setattr(
        fusesoc,
        "run_guarded",
        lambda command, **options: run([sys.executable, str(fake), *command[3:]], **options),
    )
    with pytest.raises(error) as caught:
        fusesoc.run_target("sim", tmp_path)
    assert message in str(caught.value) and "the flow's own words" in str(caught.value)


def test_synth_target_gives_yosys_the_rtl(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(fusesoc.ROOT), "run"]
    subprocess.run(
        [*command, "--setup", "--target", "synth", "--work-root", str(tmp_path), "systola"],
        cwd=tmp_path,
        env=fusesoc.environment(),
        capture_output=True,
        check=True,
    )
    script = (tmp_path / "edalize_yosys_procs.tcl").read_text()
    assert "synth_ecp5" in script and "systola_npu.v}" in script and "systola_sram.sv}" in script


def test_every_preset_has_its_targets_and_the_core_is_what_is_generated() -> None:
    text = fusesoc_core.core_text()
    assert fusesoc_core.CORE.read_text() == text, "python -m sw.runtime.simulator.fusesoc_core"
    core = yaml.safe_load(text.removeprefix("CAPI=2:"))
    wanted = {f"{kind}_{name}" for kind in ("lint", "sim", "synth") for name in PRESETS}
    assert set(core["targets"]) == wanted | {"default", "lint", "sim", "synth"}
    for name, config in PRESETS.items():
        options = core["targets"][f"sim_{name}"]["flow_options"]["verilator_options"]
        assert f"-GBUS_BYTES={config.bus_bytes}" in options
        assert f"-GADDR_BITS={config.axi_addr_bits}" in options
        assert core["generate"][f"npu_{name}"]["parameters"] == {"config": name}
    for target in core["targets"].values():
        assert set(target["generate"]) <= set(core["generate"])
        assert set(target.get("filesets", ())) <= set(core["filesets"])
    for files in core["filesets"].values():
        for file in files["files"]:
            assert (fusesoc.ROOT / next(iter(file))).exists()


def test_points_of_a_sweep_are_targets_of_a_core_of_their_own(tmp_path: Path) -> None:
    config = preset("micro").with_settings({"rows": "8", "spad_kib": "32"})
    illegal = PointResult(label="micro+rows=1", config=None, reason="rows=1: must lie in 2…128")
    point = PointResult(label=config.name, config=config, reason="")
    path = tmp_path / "out" / "points.core"
    assert write_core([point, illegal], "my space", path) == 1
    assert fusesoc.core_in(path) == (path.parent, "systola_my_space")
    digest, work = config.digest_hex, tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(path.parent), "run"]
    command += ["--setup", "--target", f"lint_{digest}", "--work-root", str(work)]
    done = subprocess.run(
        [*command, "systola_my_space"],
        cwd=work,
        env=fusesoc.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verilog = [path.read_text() for path in work.rglob("systola_npu.v")]
    assert verilog and all("module systola_npu" in text for text in verilog)
    headers = "\n".join(p.read_text() for p in work.rglob("*.vc"))
    assert "systola_npu.v" in headers and "waivers.vlt" in headers


def test_a_file_that_is_no_core_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.core").write_text("CAPI=2:\n")
    with pytest.raises(BuildError, match="it has no line like"):
        fusesoc.core_in(tmp_path / "a.core")
    with pytest.raises(BuildError, match=r"none\.core: cannot read"):
        fusesoc.core_in(tmp_path / "none.core")

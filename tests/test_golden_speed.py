"""`systola goldenspeed`: what it runs and reports. Nothing here depends on how fast that was."""

import json

import pytest
from cli_helpers import systola
from golden_programs import image

from golden_model import GoldenError, Machine
from spec import Instruction, Opcode, preset
from sw.measure import goldenspeed

TINY = preset("tiny")


def test_every_way_of_running_is_measured_and_reported(tmp_path):
    report = tmp_path / "speed.json"
    arguments = ("matmul", "add", "--config", "tiny", "--json", report)
    code, out, err = systola("goldenspeed", *arguments)
    assert code == 0, err
    rows = json.loads(report.read_text())
    assert [row["name"] for row in rows] == ["matmul", "add"]
    for row in rows:
        assert row["name"] in out
        assert row["config"] == "tiny"
        assert row["instructions"] > 4
        assert all(row[key] > 0 for key in ("load_s", "first_s", "again_s", "checked_s"))
    assert rows[0]["macs"] > 0


def test_results_that_depend_on_the_way_are_an_error(monkeypatch):
    store = Instruction(Opcode.STORE, {"region": 2, "run": 1})
    fill = Instruction(Opcode.LOAD, {"fill": 1, "run": 1})
    program = image(TINY, [fill, store], [], [("y", (1,), "int8")])
    execute = Machine.execute

    def wrong(machine: Machine, check: bool = True) -> None:
        execute(machine, False)
        machine.memory[2][0] = check

    monkeypatch.setattr(Machine, "execute", wrong)
    with pytest.raises(GoldenError, match=r"^p: output y depends on how the golden model runs$"):
        goldenspeed.measure(program, {}, "p")
    monkeypatch.setattr(Machine, "execute", lambda machine, check=True: execute(machine, False))
    assert goldenspeed.measure(program, {}, "p").instructions == 4


def test_an_unknown_target_is_named():
    code, _, err = systola("goldenspeed", "resnet5000")
    assert code == 2
    assert "'resnet5000': no such kernel or model" in err
    assert "Traceback" not in err

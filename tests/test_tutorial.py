"""The tutorial's commands do what its pages show; `--update-golden` writes what they print.

A sweep over all four arrays takes minutes, most of them for lint and builds. Here it has one point,
and the cycles that the page shows for the others are those of a run on each.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from tutorial_pages import FOLDER, blocks, commands, differences, masked, pages, refreshed, run

SWEEP = "systola sweep arrays.yaml --out sweep"
PICTURES = {"layers.png": "layers.png", "sweep/points.png": "points.png"}
ROW = re.compile(
    r"^│ (\w+) +│ +(\d+) +│ +([\d.]+) +│ +[\d,]+ +│ +[\d.]+ +│ +([\d,]+) (\d+)% │$", re.M
)


def cycles(name: str, folder: Path) -> int:
    run(
        f"systola run my_model.safetensors --config {name} --device rtl --limit 1 --json {name}",
        folder,
    )
    return int(json.loads((folder / name).read_text())["cycles"])


@pytest.mark.rtl
def test_every_command_prints_what_the_page_shows(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    update = request.config.getoption("--update-golden")
    wrong: list[str] = []
    for page in pages():
        text = page.read_text()
        for kind, title, content in blocks(text):
            if title:
                (tmp_path / title).write_text(content)
            if kind != "console":
                continue
            lines: list[str] = []
            for command in commands(content):
                lines.append(f"$ {command.text}")
                if command.text == SWEEP and not update:
                    run(f"{SWEEP} --only tiny", tmp_path)
                    continue
                printed = run(command.text, tmp_path)
                wrong += differences(command.shown, printed)
                lines += refreshed(command, printed)
            if update:
                text = text.replace(content, "\n".join(lines) + "\n")
        if update:
            page.write_text(text)
    for made, name in PICTURES.items():
        assert (tmp_path / made).stat().st_size > 5000
        if update:
            shutil.copy(tmp_path / made, FOLDER / name)
    if not update:
        assert wrong == [], "review, then pytest --update-golden tests/test_tutorial.py"
        shown = {row[0]: row for row in ROW.findall((FOLDER / "4-try-hardware.md").read_text())}
        assert list(shown) == ["tiny", "rect", "odd", "default"]
        for name, row in shown.items():
            assert f"{cycles(name, tmp_path):,}" == row[3]


def test_the_decision_is_made_of_the_figures_of_the_sweep() -> None:
    swept = ROW.findall((FOLDER / "4-try-hardware.md").read_text())
    assert len(swept) == 4
    decided = (FOLDER / "5-decide.md").read_text()
    for name, pes, memory, count, used in swept:
        microseconds = int(count.replace(",", "")) / 500
        row = f"| `{name}` | {pes} | {memory} | {count} | {used}% | {microseconds:.1f} |"
        assert row in decided, row


def test_a_difference_is_seen() -> None:
    shown = ["cycles  1,650", "…", "PASS  3 s"]
    assert differences(shown, ["cycles    1,650", "a", "b", "PASS  14 s"]) == []
    assert differences(shown, ["cycles    1,651", "a", "b", "PASS  14 s"]) != []
    assert differences(["a"], ["a", "b"]) != []
    assert masked("pcc  0.98765") == masked("pcc  0.98764 ")
    assert masked("cycles 1,650") != masked("cycles 1,651")

"""Temporary folders: gone with their process, swept when it could not do that itself."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import ROOT

from sw.runtime import scratch
from sw.runtime.scratch import MARKER, PREFIX, Scratch, ScratchError, sweep

HOLDER = """
import sys, time
from sw.runtime.scratch import Scratch
folder = Scratch("held")
print(folder.path, flush=True)
time.sleep(100)
"""


def aged(path: Path) -> Path:
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_goes_with_its_block(temporary):
    with Scratch("test") as folder:
        (folder.path / "file").write_text("x")
        assert folder.path.parent == temporary
        assert folder.path.name.startswith(f"{PREFIX}test-")
    assert not folder.path.exists()
    folder.close()


def test_folders_of_the_living_stay_and_those_of_the_dead_go(temporary):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    folder = Path(holder.stdout.readline().strip())
    (folder / "large").write_bytes(b"x" * 1000)
    aged(folder)
    assert sweep(temporary) == []
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert folder.is_dir(), "SIGKILL leaves it behind"
    aged(folder)
    assert sweep(temporary) == [folder]
    assert not folder.exists()


TERMINATED = """
import sys, time
from sw.cli.main import main
from sw.runtime.scratch import Scratch

def doctor():
    with Scratch("told") as folder:
        print(folder.path, flush=True)
        time.sleep(100)

from sw.cli import environment
environment.doctor = doctor
main(["doctor"])
"""


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        (signal.SIGTERM, 143, "systola: terminated\n"),
        (signal.SIGINT, 130, "systola: interrupted\n"),
    ],
)
def test_a_command_that_is_told_to_end_leaves_nothing(temporary, how, code, message):
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINATED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    folder = Path(process.stdout.readline().strip())
    assert folder.is_dir()
    process.send_signal(how)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (code, message)
    assert list(temporary.glob(f"{PREFIX}*")) == []


def test_nothing_else_is_swept(temporary):
    theirs = temporary / "systola-notes"
    unmarked = temporary / f"{PREFIX}x"
    young = temporary / f"{PREFIX}young"
    elsewhere = temporary / "elsewhere"
    for folder in (theirs, unmarked, young, elsewhere):
        folder.mkdir()
    for folder in (theirs, young, elsewhere):
        (folder / MARKER).touch()
    link = temporary / f"{PREFIX}link"
    link.symlink_to(elsewhere)
    for folder in (theirs, unmarked, elsewhere):
        aged(folder)
    assert sweep(temporary) == []
    assert all(p.exists() for p in (theirs, unmarked, young, elsewhere, link))


def test_a_folder_that_cannot_be_made_says_where(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "mkdtemp", full)
    with pytest.raises(ScratchError, match=r"No space left on device; [\d,]+ bytes free; set TMPD"):
        Scratch("test")

"""A corpus of malformed inputs: each is one message and exit code 2, whatever is wrong with it."""

import os
import random
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import ROOT, copy_image
from malformed_cases import KINDS, SEED, Case, Kind

from spec.program import Port
from sw.cli.main import main

LONGEST = 8200
GROWTH = 512 << 20
"""Bytes by which the whole corpus may raise this process's peak."""


def outcome(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """(exit code, standard error) of a case's command line, in this process."""
    file = folder / f"case{case.suffix}"
    if case.suffix:
        file.write_bytes(case.data)
    places = {"{file}": str(file), "{folder}": str(folder)}
    arguments = list(case.arguments)
    for mark, place in places.items():
        arguments = [text.replace(mark, place) for text in arguments]
    code: object = None
    try:
        main(arguments)
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:
        code = f"{type(error).__name__}: {error}"
    return code or 0, capsys.readouterr().err


def complaint(case: Case, code: object, message: str) -> str:
    """What is wrong with how a case ended, or nothing."""
    if case.legal and (code, message) == (0, ""):
        return ""
    if code != 2 or not message.strip() or "Traceback" in message:
        return f"ended with {code}"
    if len(message) > LONGEST:
        return f"a message of {len(message)} characters"
    return ""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_case_ends_with_one_message_and_exit_code_2(
    kind: Kind,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = list(kind(tmp_path, random.Random(SEED)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = []
    for case in cases:
        code, message = outcome(case, tmp_path, capsys)
        if found := complaint(case, code, message):
            wrong.append(f"{case.name} {case.arguments}: {found}: {message[:300]}")
    assert wrong == []
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < GROWTH


def test_the_corpus_has_hundreds_of_cases_that_must_be_refused(tmp_path: Path) -> None:
    cases = [case for kind in KINDS for case in kind(tmp_path, random.Random(SEED))]
    assert sum(not case.legal for case in cases) >= 300
    assert len({case.name for case in cases}) == len(cases)


LIMIT = 3 << 30
"""Address space of a process of its own."""


@pytest.mark.parametrize("make", ["image", "overlapping", "temporary"])
def test_a_small_file_that_asks_for_much_memory_is_refused(tmp_path: Path, make: str) -> None:
    x = Port(name="x", offset=0, shape=((1 << 32) - 1,))
    image = {
        "image": replace(copy_image(), inputs=(x,)),
        "overlapping": replace(
            copy_image(),
            inputs=tuple(Port(name=f"x{i}", offset=0, shape=(1 << 28,)) for i in range(40)),
        ),
        "temporary": replace(copy_image(), temp_bytes=(1 << 32) - 1),
    }[make]
    image.save(tmp_path / "large.systola")
    assert (tmp_path / "large.systola").stat().st_size < 10_000
    done = subprocess.run(
        [sys.executable, "-m", "systola", "exec", "large.systola", "--device", "golden"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert re.fullmatch(
        r"systola: program copy: its (memory|tensors) needs about [0-9,]+ bytes of memory, this "
        r"process can have [0-9,]+; use smaller shapes or a machine with more memory\n",
        done.stderr,
    )


def test_memory_that_is_used_up_is_one_message(capsys, monkeypatch) -> None:
    for error, text in (
        (MemoryError("Unable to allocate 9.80 GiB"), "not enough memory: Unable to allocate"),
        (OSError(28, "No space left on device", "x.npy"), "No space left on device: 'x.npy'"),
    ):

        def failing(error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("sw.cli.environment.doctor", failing)
        with pytest.raises(SystemExit) as ended:
            main(["doctor"])
        assert ended.value.code == 2
        assert text in capsys.readouterr().err

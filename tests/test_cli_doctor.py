"""`systola doctor` and `import systola`: what is wrong is said with how to mend it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cli_helpers import ROOT, copy_image, environment, systola

import systola as api
from sw.cli import doctor


def test_everything_is_checked_and_fine_here(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    results = doctor.run_all()
    names = [r.name for r in results]
    assert names == [
        "python", "packages", "g++", "make", "verilator", "build cache", "memory", "disk",
    ]  # fmt: skip
    assert all(r.mend for r in results if r.name != "memory")
    broken = [r for r in results if not r.ok and r.name not in ("memory", "disk")]
    assert broken == []


def test_wrong_and_missing_packages_are_named_with_both_versions(monkeypatch):
    monkeypatch.setattr(doctor, "required_pins", lambda: {"numpy": "0.9", "no-such-package": "1"})
    monkeypatch.setattr(doctor, "optional_pins", dict)
    check = doctor.check_packages()
    assert not check.ok
    assert check.found == (
        f"numpy {np.__version__} (pinned: 0.9), no-such-package not installed (pinned: 1)"
    )
    assert "make venv" in check.mend


def test_optional_packages_may_be_missing_but_not_of_another_version(monkeypatch):
    monkeypatch.setattr(doctor, "required_pins", lambda: {"numpy": np.__version__})
    monkeypatch.setattr(doctor, "optional_pins", lambda: {"no-such-package": "1"})
    check = doctor.check_packages()
    assert check.ok
    assert check.found == (
        "1 pinned packages as pinned; 1 of the tests are missing, which make dev installs"
    )
    monkeypatch.setattr(doctor, "optional_pins", lambda: {"pytest": "0.9"})
    check = doctor.check_packages()
    assert not check.ok
    assert check.found == f"pytest {pytest.__version__} (pinned: 0.9)"
    assert "make dev" in check.mend


def test_no_pins_at_all_is_a_failure(monkeypatch):
    monkeypatch.setattr(doctor, "required_pins", dict)
    assert not doctor.check_packages().ok


def test_pins_skip_comments_and_extras():
    text = "# a==1\ntorch==2.13.0   # why\n\nruff==1.2 ; extra == 'dev'\nplain\n"
    assert doctor.pins(text) == {"torch": "2.13.0", "ruff": "1.2"}


def test_the_compiler_is_that_of_the_environment_and_a_faster_one_is_named(monkeypatch, tmp_path):
    for name in ("g++", "clang++"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} 1.2\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert doctor.check_compiler().found == f"g++ 1.2 ({tmp_path}/g++)"
    (tmp_path / "clang++").chmod(0o755)
    assert doctor.check_compiler().found.endswith("set CXX=clang++")
    monkeypatch.setenv("CXX", "clang++")
    assert doctor.check_compiler().found == f"clang++ 1.2 ({tmp_path}/clang++)"
    monkeypatch.setenv("CXX", "no-such-compiler")
    check = doctor.check_compiler()
    assert (check.name, check.ok) == ("no-such-compiler", False)
    assert "CXX" in check.mend


@pytest.mark.parametrize("script", [None, "exit 1"], ids=["absent", "broken"])
def test_tool_that_does_not_run_is_a_failure(monkeypatch, tmp_path, script):
    if script:
        (tmp_path / "g++").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.check_tool("g++", "install it")
    assert (check.ok, check.mend) == (False, "install it")
    assert check.found.startswith("does not run" if script else "not on PATH")


def test_failed_check_makes_the_command_fail_and_says_how_to_mend_it(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "systola", "doctor"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**environment(), "SYSTOLA_CACHE": str(tmp_path / "file")},
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("FAIL  build cache: "))
    assert lines[at + 1] == (
        "      mend: set SYSTOLA_CACHE to a folder on a local disk that you can write"
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_cache_commands_use_the_given_folder(tmp_path):
    env = {**os.environ, "SYSTOLA_CACHE": str(tmp_path / "c")}
    for command, text in (("show", "0.00 of "), ("clear", "0 builds removed")):
        done = subprocess.run(
            [sys.executable, "-m", "systola", "cache", command],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{tmp_path / 'c'}: ")
        assert text in done.stdout


def test_python_api_runs_an_image_and_refuses_bad_input(tmp_path):
    x = np.arange(64, dtype=np.int8)
    copy_image().save(tmp_path / "copy")
    for image in (copy_image(), tmp_path / "copy"):
        np.testing.assert_array_equal(api.run(image, {"x": x})["y"], x)
    with pytest.raises(api.SystolaError, match=r"^input x: is missing; its inputs are x$"):
        api.run(copy_image(), {})
    with pytest.raises(api.SystolaError, match=r"^--device fpga: must be one of rtl, golden$"):
        api.run(copy_image(), {"x": x}, device="fpga")


def test_python_api_names_what_it_has():
    for name in api.__all__:
        assert getattr(api, name) is not None
    with pytest.raises(AttributeError, match=r"^module 'systola' has no attribute 'nothing'$"):
        _ = api.nothing


def test_doctor_command_lists_every_check():
    _, out, _ = systola("doctor")
    assert f"{len(doctor.run_all())} checks, " in out.splitlines()[-1]

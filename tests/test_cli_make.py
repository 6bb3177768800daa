"""The Makefile and set-up: every target is listed, options arrive, missing tools are named."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command, path=None, cwd=ROOT):
    # `make test` itself must not make the inner make a sub-make.
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    if path is not None:
        env["PATH"] = str(path)
    return subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, cwd=cwd, env=env,
        stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip


def targets():
    text = (ROOT / "Makefile").read_text()
    return re.findall(r"^\.PHONY: (\S+)$", text, re.M)


def test_help_lists_every_target_on_one_line_each():
    out = run("make", "help").stdout.splitlines()
    listed = [re.fullmatch(r"  make (\S+) +\S.*", line)[1] for line in out]
    assert listed == targets()
    assert {"sim", "test", "lint", "rtl", "simspeed", "verify", "docs", "clean", "distclean"} <= (
        set(listed)
    )


def test_help_is_what_make_alone_prints():
    assert run("make").stdout == run("make", "help").stdout


def test_rtl_leaves_the_folder_to_the_generator():
    assert "--out" not in run("make", "-n", "rtl", "SET=rows=8").stdout


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["sim"], "-m systola sim matmul --config default"),
        (
            ["sim", "KERNEL=conv2d", "SHAPE=h=8,w=8", "CONFIG=tiny", "WAVES=1", "SEED=7"],
            "-m systola sim conv2d --config tiny --shape 'h=8,w=8' --seed 7 --waves",
        ),
        (
            ["sim", "LATENCY=400", "STALL=0.3", "SET=rows=8 cols=8", "WAVES=0", "JSON=a b.json"],
            "-m systola sim matmul --config default --set 'rows=8' --set 'cols=8' --latency 400 "
            "--stall 0.3 --json 'a b.json'",
        ),
        (["rtl", "CONFIG=odd"], "-m hw_gen --config odd"),
        (["rtl", "SET=rows=8 cols=8"], "-m hw_gen --config default --set 'rows=8' --set 'cols=8'"),
        (["rtl", "OUT=my rtl"], "-m hw_gen --config default --out 'my rtl'"),
        (["simspeed"], "-m systola simspeed --config default"),
        (["goldenspeed", "MODEL=vww"], "-m systola goldenspeed vww --config default"),
        (["docs", "PAGES=isa operators"], "-m systola pages isa operators"),
        (["regress", "JOBS=3"], "-m systola regress smoke --jobs 3"),
        (
            ["regress", "SUITE=nightly", "JOBS=2", "FRESH=1", "RETRY=0", "ONLY=tiny rtl"],
            "-m systola regress nightly --jobs 2 --fresh --only 'tiny rtl'",
        ),
    ],
)
def test_variables_become_options(arguments, wanted):
    done = run("make", "-n", *arguments)
    assert done.returncode == 0, done.stderr
    text = re.sub(r"\s+", " ", done.stdout)
    assert wanted in text


def bin_folder(tmp_path, tools, scripts):
    """A PATH with only these tools and shell scripts."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in tools:
        (folder / tool).symlink_to(shutil.which(tool))
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    return folder


def clone(tmp_path):
    """What set-up needs of the tree, so that this tree's .venv is left alone."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "tools", tree / "tools")
    shutil.copytree(ROOT / "requirements", tree / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


OLD = 'if [ "$1" = -V ]; then echo "Python 3.9.2"; exit 0; fi; exit 1'


def test_old_python_is_named_with_its_version_and_the_remedy(tmp_path):
    path = bin_folder(tmp_path, ["sh", "dirname"], {"python3": OLD})
    done = run("sh", "tools/setup.sh", path=path, cwd=clone(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        "setup: no Python 3.11, 3.12 or 3.13 found (python3 is: Python 3.9.2)\n"
        "setup: install one (Debian, Ubuntu: apt install python3.11 python3.11-venv), "
        "or make PYTHON=/path/to/it\n"
    )


def test_chosen_python_that_is_too_old_is_refused(tmp_path):
    path = bin_folder(tmp_path, ["sh", "dirname"], {"mine": OLD})
    done = run("sh", "tools/setup.sh", "mine", path=path, cwd=clone(tmp_path))
    assert done.returncode == 2
    assert "setup: PYTHON=mine is not Python 3.11, 3.12 or 3.13\n" in done.stderr


def test_missing_compiler_is_named(tmp_path):
    path = bin_folder(tmp_path, ["sh", "dirname"], {"python3": "exit 0"})
    done = run("sh", "tools/setup.sh", path=path, cwd=clone(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        "setup: no g++ found; the simulator is compiled with it\n"
        "setup: install it (Debian, Ubuntu: apt install g++)\n"
    )


def test_python_without_venv_is_named(tmp_path):
    tree = clone(tmp_path)
    wrapper = tmp_path / "python"
    wrapper.write_text("#!/bin/sh\necho no venv >&2\nexit 1\n")
    wrapper.chmod(0o755)
    code = (
        "import sys; sys.path.insert(0, 'tools'); sys.argv = ['setup.py']; import setup; "
        f"setup.sys.executable = {str(wrapper)!r}\n"
        "try: setup.create_venv()\n"
        "except setup.SetupError as error: print(error)"
    )
    done = run(shutil.which("python3"), "-c", code, cwd=tree)
    assert "this Python has no working venv; Debian, Ubuntu: apt install python3." in done.stdout


def test_what_runs_something_does_not_install_what_only_tests_need():
    prepared = dict(re.findall(r"^([a-z-]+): (venv|dev)\b", (ROOT / "Makefile").read_text(), re.M))
    assert {prepared[name] for name in ("sim", "run", "verify", "rtl", "bench")} == {"venv"}
    assert {prepared[name] for name in ("test", "lint", "site", "synth", "fusesoc")} == {"dev"}


def test_the_larger_set_of_packages_holds_the_smaller_one(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'tools'); import setup; setup.VENV.mkdir(); "
        "setup.PYTHON.parent.mkdir(); setup.PYTHON.touch(); "
        "setup.stamp('run'); print(setup.up_to_date('run'), setup.up_to_date('dev')); "
        "setup.stamp('dev'); print(setup.up_to_date('run'), setup.up_to_date('dev'))"
    )
    done = run(sys.executable, "-c", code, cwd=clone(tmp_path))
    assert done.stdout == "True False\nTrue True\n", done.stderr


def test_pins_are_complete_and_agree():
    from sw.cli.doctor import pins

    folder = ROOT / "requirements"
    direct = {**pins((folder / "run.txt").read_text()), **pins((folder / "dev.txt").read_text())}
    everything = pins((folder / "constraints.txt").read_text())
    canonical = {name.lower().replace("_", "-"): version for name, version in everything.items()}
    assert len(direct) > 15
    assert direct["torch"] == "2.13.0"
    for name, version in direct.items():
        assert canonical[name.lower().replace("_", "-")] == version
    for path in ("run.txt", "dev.txt"):
        for line in (folder / path).read_text().splitlines():
            assert line.startswith("#") or re.fullmatch(r"\S+==\S+ +# .+", line), line

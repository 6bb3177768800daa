"""What a misspelt name is answered with, and the versions."""

import importlib.metadata
import re

import pytest
from typer.testing import CliRunner

from spec.config import parse_settings, preset
from spec.errors import SystolaError
from spec.isa import ISA_DIGEST
from spec.names import did_you_mean
from sw.campaign.regress.suite import load_suite
from sw.campaign.workloads import check_workload
from sw.cli import main
from sw.cli.pages import find_page
from sw.measure.bench_suites import entries
from sw.measure.targets import is_model
from sw.models.catalog import get_model
from sw.models.kernels import kernel
from sw.models.sources import functions_of
from sw.results import revision
from sw.runtime.session import DeviceOptions


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("defualt", ["tiny", "default"], " (did you mean 'default'?)"),
        ("resnet5", ["resnet50", "resnet8", "ad"], " (did you mean 'resnet50' or 'resnet8'?)"),
        ("TINY", ["tiny"], " (did you mean 'tiny'?)"),
        ("--confg", ["--config", "--json"], " (did you mean '--config'?)"),
        ("nosuch", ["tiny", "default"], ""),
        ("", ["tiny"], ""),
    ],
)
def test_names_that_are_alike_are_suggested(name, known, text):
    assert did_you_mean(name, known) == text


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: preset("smal"), "small"),
        (lambda: preset("tiny").with_settings(parse_settings(["row=8"])), "rows"),
        (lambda: kernel("matmull", {}), "matmul"),
        (lambda: get_model("resnet80"), "resnet8"),
        (lambda: is_model("ds_cn", None), "ds_cnn"),
        (lambda: load_suite("smokey"), "smoke"),
        (lambda: check_workload("matmul2:8x8x8"), "matmul"),
        (lambda: entries("net"), "nets"),
        (lambda: DeviceOptions(device="gold"), "golden"),
        (lambda: find_page("isas"), "isa"),
    ],
)
def test_every_kind_of_name_is_suggested_with_the_same_words(call, name):
    with pytest.raises(SystolaError, match=rf"\(did you mean '{name}'"):
        call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simm"], "No such command 'simm' (did you mean 'sim'?)"),
        (["config", "lst"], "No such command 'lst' (did you mean 'list'?)"),
        (["sim", "matmul", "--confg", "x"], "No such option --confg (did you mean '--config'?)"),
        (["sim", "matmul", "--zzz"], "No such option --zzz "),
    ],
)
def test_misspelt_commands_and_options(arguments, message):
    result = CliRunner().invoke(main.app, arguments, prog_name="systola")
    assert result.exit_code == 2
    assert f"│ {message}" in result.output


SOURCE = """
import no_such_package

def small(): ...
def sized(n=3, *, deep=False): ...
def _private(): ...
def needs(x): ...
def needs_keyword(*, x): ...
class Net: ...
"""


def test_functions_are_found_without_running_the_file(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    assert functions_of(path) == ["small", "sized"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SOURCE, "; try {path}:small or {path}:sized"),
        ("x = 1\n", "; the file has no function without arguments"),
        ("def\n", "; the file cannot be read: "),
    ],
)
def test_a_file_without_a_function_is_told_what_to_write(tmp_path, text, message):
    path = tmp_path / "model.py"
    path.write_text(text)
    for call in (lambda: get_model(str(path)), lambda: is_model(str(path), None)):
        with pytest.raises(SystolaError) as caught:
            call()
        wanted = f"{path}: a model is a function of the file, path.py:function"
        assert str(caught.value).startswith(wanted + message.format(path=path))


def test_a_file_that_is_not_there_is_looked_for_beside(tmp_path):
    (tmp_path / "model.py").write_text("")
    with pytest.raises(SystolaError, match=r"there is no file .*modl.py \(did you mean 'model.py'"):
        get_model(str(tmp_path / "modl.py"))


def test_versions_of_package_instructions_and_sources():
    result = CliRunner().invoke(main.app, ["--version"])
    assert result.exit_code == 0
    package = re.escape(importlib.metadata.version("systola"))
    pattern = rf"systola {package}, ISA \d+\.\d+ \(digest {ISA_DIGEST:016x}\)(, commit \w+\+?)?\n"
    assert re.fullmatch(pattern, result.output)


def test_an_installed_package_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    assert revision.commit.__wrapped__() == ""

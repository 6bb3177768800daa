"""The package's metadata agrees with the environment that the tests run in."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(name):
    """The packages that a file of requirements/ pins, with their versions."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return dict(line.split()[0].split("==") for line in lines if line and line[0] not in "#-")


def ranges():
    return {r.name: r.specifier for r in map(Requirement, PROJECT["dependencies"])}


def test_an_installation_needs_what_the_environment_has():
    assert ranges().keys() == pins("run.txt").keys()


@pytest.mark.parametrize("name", ranges())
def test_the_tested_version_is_the_lowest_allowed_one(name):
    version, allowed = pins("run.txt")[name], ranges()[name]
    assert allowed.contains(version)
    lowest = next(s.version for s in allowed if s.operator in (">=", "=="))
    assert version == lowest or re.fullmatch(rf"{re.escape(lowest)}(\.0)*", version)


def test_constraints_are_the_pins_of_every_other_file():
    constraints = pins("constraints.txt")
    for file in (ROOT / "requirements").glob("*.txt"):
        for name, version in pins(file.name).items():
            assert constraints[name] == version, f"{name} of {file.name}"


def test_every_package_that_is_typed_says_so():
    for package in ("spec", "golden_model", "hw_gen", "sw", "systola"):
        assert (ROOT / package / "py.typed").is_file()


def test_licence_is_the_same_everywhere():
    assert PROJECT["license"] == "Apache-2.0"
    assert "\nlicense: Apache-2.0\n" in (ROOT / "systola.core").read_text()
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()


def test_version_is_the_same_everywhere():
    version = PROJECT["version"]
    assert f"name: ::systola:{version}\n" in (ROOT / "systola.core").read_text()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()

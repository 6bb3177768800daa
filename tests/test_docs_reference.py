"""The pages about configuration, command line and Python leave nothing out."""

import dataclasses

import pytest

import systola
from spec.config import ConfigError, NpuConfig
from sw.cli.main import COMMANDS
from sw.cli.reference import commands_page, python_page
from sw.measure.pages.configuration import BROKEN, MEANING, render


def test_every_field_has_its_meaning_and_its_legal_values():
    names = [f.name for f in dataclasses.fields(NpuConfig) if f.name != "name"]
    assert list(MEANING) == names
    page = render()
    assert "| `cols` | 16 | 2, 4, 8, 16, 32, 64, 128 | columns of the array" in page
    assert "| `rows` | 16 | 2…128 | rows of the array" in page
    assert "| `depthwise` | true | true, false |" in page
    assert page.count("\n| `") >= len(names) + len(BROKEN)


def test_every_example_breaks_a_rule():
    for settings in BROKEN:
        with pytest.raises(ConfigError) as caught:
            NpuConfig(**settings)
        assert f"| {caught.value} |" in render()


def test_every_command_has_its_options():
    page = commands_page()
    for names in COMMANDS.values():
        for name in names:
            assert f"\n## systola {name}\n" in page
            assert f"\n    systola {name}" in page
    sim = page.split("\n## systola sim\n")[1].split("\n## ")[0]
    assert "| `--config`, `-c` | `default` | preset (systola config list) |" in sim
    assert "    systola sim KERNEL [OPTIONS]" in sim


def test_everything_public_is_on_the_page():
    page = python_page()
    for name in systola.__all__:
        assert f"\n## systola.{name}\n" in page
    assert "def " not in page
    assert "preset(name: str) -> NpuConfig" in page
    assert "device: str = 'golden'," in page

"""The table of commands, and options that are groups of others."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from sw.cli import main
from sw.cli.options import CONFIGURATION, Configuration, flatten

NAMES = [name for names in main.COMMANDS.values() for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Two options for tests."""

    height: Annotated[int, typer.Option("--height", "-y", min=1)]
    width: Annotated[int, typer.Option("--width")] = 3


SIZES = Sizes(height=2)


def area(
    name: str,
    sizes: Sizes = SIZES,
    loud: Annotated[bool, typer.Option("--loud")] = False,
    hardware: Configuration = CONFIGURATION,
) -> None:
    """Prints what it was given."""
    text = f"{name} {sizes.height * sizes.width} {hardware.npu().rows}"
    typer.echo(text.upper() if loud else text)


def called(*arguments: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False)
    app.command()(flatten(area))
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["a"], "a 6 16"),
        (["a", "-y", "4", "--width", "5"], "a 20 16"),
        (["a", "--loud", "-c", "tiny", "--set", "rows=8"], "A 6 8"),
    ],
)
def test_a_group_becomes_an_option_for_each_of_its_fields(arguments, printed):
    assert called(*arguments) == (0, printed + "\n")


def test_the_limits_of_a_groups_options_are_kept():
    code, output = called("a", "--height", "0")
    assert code == 2 and "--height" in output


def test_two_groups_with_the_same_option_are_refused():
    def twice(one: Sizes = SIZES, two: Sizes = SIZES) -> None:
        """Never runs."""

    with pytest.raises(ValueError, match="duplicate parameter name: 'height'"):
        flatten(twice)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_of_the_table_shows_its_help(name):
    result = CliRunner().invoke(main.app, [*name.split(), "--help"], prog_name="systola")
    assert result.exit_code == 0, result.output
    assert f"Usage: systola {name} " in result.output


def test_every_command_of_two_words_belongs_to_a_group():
    assert {name.split()[0] for name in NAMES if " " in name} == set(main.GROUPS)
    alone = [name for name in NAMES if " " not in name]
    assert len(set(alone)) == len(alone) and not set(alone) & set(main.GROUPS)


def test_help_imports_neither_numpy_nor_the_rest():
    code = (
        "import sys\n"
        "from sw.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'torch', 'amaranth', 'sqlite3', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

"""The command line, `systola COMMAND`: the table of its commands, and how each ends.

Exit codes: 0 done and equal, 1 a comparison failed, 2 bad input, 130 interrupted, 143 terminated.
Everything a user can get wrong is a `SystolaError`, printed as one message on stderr without a
trace-back; so are memory and disk space that are not there.

The file of a command is imported when the command is called, or to list its help. Those files
import at their top what is light; torch, amaranth, NumPy and the simulator are imported by the
functions.
"""

import importlib
import os
import sys
from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main
from typer._click.exceptions import NoSuchOption, UsageError

from sw.cli.ending import Terminated, orderly, shortened
from sw.cli.options import flatten

if TYPE_CHECKING:
    from typer._click.core import Command

COMMANDS = {
    "Run": {
        "sim": "sw.cli.run:sim",
        "run": "sw.cli.run:run",
        "exec": "sw.cli.run:execute",
        "generate": "sw.cli.generate:generate",
    },
    "Compile": {
        "compile": "sw.cli.images:compile_program",
        "disasm": "sw.cli.images:disasm",
        "quantize": "sw.cli.images:quantize",
    },
    "Compare": {
        "verify": "sw.cli.compare:verify",
        "validate": "sw.cli.compare:validate",
        "diff": "sw.cli.compare:diff",
        "accuracy": "sw.cli.accuracy:accuracy",
        "sensitivity": "sw.cli.sensitivity:sensitivity",
        "conformance": "sw.cli.campaigns.conformance:conformance",
    },
    "Measure": {
        "bench": "sw.cli.measure:bench",
        "profile": "sw.cli.measure:profile",
        "bound": "sw.cli.bound:bound",
        "calibrate": "sw.cli.calibrate:calibrate",
        "simspeed": "sw.cli.measure:simspeed",
        "goldenspeed": "sw.cli.measure:goldenspeed",
        "synth": "sw.cli.synth:synth",
        "energy": "sw.cli.energy:energy",
        "pages": "sw.cli.pages:pages",
    },
    "FPGA": {
        "fpga build": "sw.cli.fpga:fpga_build",
        "fpga run": "sw.cli.fpga:fpga_run",
    },
    "Campaigns": {
        "regress": "sw.cli.campaigns.regress:regress",
        "bisect": "sw.cli.campaigns.bisect:bisect",
        "sweep": "sw.cli.campaigns.sweep:sweep",
        "report": "sw.cli.campaigns.report:report",
        "serve": "sw.cli.campaigns.report:serve",
        "mutants": "sw.cli.campaigns.mutants:mutants",
        "worker": "sw.cli.campaigns.worker:worker",
        "corrupt": "sw.cli.campaigns.corrupted:corrupt",
        "results list": "sw.cli.campaigns.results:results_list",
        "results show": "sw.cli.campaigns.results:results_show",
        "results compare": "sw.cli.campaigns.results:results_compare",
        "results export": "sw.cli.campaigns.results:results_export",
    },
    "Environment": {
        "config list": "sw.cli.environment:config_list",
        "config show": "sw.cli.environment:config_show",
        "cache show": "sw.cli.environment:cache_show",
        "cache clear": "sw.cli.environment:cache_clear",
        "doctor": "sw.cli.environment:doctor",
    },
}
"""Every command by the panel of `systola --help` that lists it, with its function."""

GROUPS = {
    "fpga": "The NPU on a board.",
    "results": "The database of results.",
    "config": "List presets, show one.",
    "cache": "The cache of simulator builds.",
}
"""Commands that consist of others."""

_PANELS = {name.split()[0]: panel for panel, names in COMMANDS.items() for name in names}


class Group(typer.core.TyperGroup):
    """Commands; a misspelt one or a misspelt option is told what was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            near = _suggestion(args[0], self.list_commands(ctx))
            error.message = error.message.rstrip(".") + near
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NoSuchOption as error:
            near = _suggestion(error.option_name, error.possibilities or ())
            raise UsageError(f"No such option {error.option_name}{near}", error.ctx) from None


def _suggestion(name: str, known: Iterable[str]) -> str:
    from spec.names import did_you_mean

    return did_you_mean(name, known)


class Commands(Group):
    """The commands of the table, each made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_PANELS)

    def get_command(self, ctx: Any, cmd_name: str) -> "Command | None":
        return make_command(cmd_name) if cmd_name in _PANELS else None

    def invoke(self, ctx: Any) -> Any:
        """Run the command; how these end is ours to say, typer would say nothing."""
        try:
            return super().invoke(ctx)
        except Terminated:
            typer.echo("systola: terminated", err=True)
            raise typer.Exit(143) from None
        except KeyboardInterrupt:
            typer.echo("systola: interrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # The reader of our output (head, less) is gone; Python would complain at its exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None


def make_command(name: str) -> "Command":
    """The command `name` of the table, or the group of that name."""
    panel = _PANELS[name]
    found = typer.Typer(
        name=name,
        cls=Group,
        help=GROUPS.get(name),
        no_args_is_help=name in GROUPS,
        add_completion=False,
        suggest_commands=False,
        rich_help_panel=panel,
    )
    for full_name, path in COMMANDS[panel].items():
        if full_name.split()[0] == name:
            module, _, function = path.partition(":")
            member = getattr(importlib.import_module(module), function)
            found.command(full_name.split()[-1], rich_help_panel=panel)(flatten(member))
    return typer.main.get_command(found)


app = typer.Typer(
    name="systola",
    cls=Commands,
    help="A systolic-array NPU: generate it, compile for it, simulate it, compare it bit by bit.",
    no_args_is_help=True,
    add_completion=False,
    suggest_commands=False,  # ours are worded as those for other names
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def version_text() -> str:
    """`systola 0.1.0, ISA 9.0 (digest …), commit …`; without the commit outside a repository."""
    from spec.isa import ISA_DIGEST, ISA_VERSION
    from sw.results.revision import commit

    major, minor = ISA_VERSION
    text = f"systola {version('systola')}, ISA {major}.{minor} (digest {ISA_DIGEST:016x})"
    return f"{text}, commit {commit()}" if commit() else text


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def systola(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="print the versions of package, instruction set and sources",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """A systolic-array NPU: generate it, compile for it, simulate it, compare it bit by bit."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console script and of `python -m systola`."""
    try:
        with orderly():
            app(arguments, prog_name="systola")
    except MemoryError as error:
        typer.echo(f"systola: not enough memory: {error or 'it is used up'}", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(f"systola: {shortened(str(error))}", err=True)
        sys.exit(2)
    except Exception as error:
        # Imported here because it brings NumPy along, which `systola --help` does not need.
        from spec.errors import SystolaError

        if not isinstance(error, SystolaError):
            raise
        typer.echo(f"systola: {shortened(str(error))}", err=True)
        sys.exit(2)

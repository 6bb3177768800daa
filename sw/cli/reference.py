"""Pages of docs/ about what a user calls: docs/commands.md and docs/python.md."""

import importlib
import inspect
import re
import typing
from typing import TYPE_CHECKING, Any

from sw.cli.main import COMMANDS, make_command

if TYPE_CHECKING:
    from typer._click.core import Command

_NOTE = "<!-- Generated from {} by sw/cli/reference.py (make docs); do not edit. -->"


def commands_page() -> str:
    """docs/commands.md: every command with its arguments, options and defaults."""
    lines = [
        _NOTE.format("sw/cli/"),
        "",
        "# Command line",
        "",
        "In a checkout the program is `.venv/bin/systola`. Its exit code is 0 if everything is",
        "done and equal, 1 if a comparison failed, 2 for bad input, 130 if interrupted. The",
        "targets of the Makefile call these commands; `make help` lists them.",
        "",
        "| | commands |",
        "|---|---|",
    ]
    for panel, names in COMMANDS.items():
        links = ", ".join(f"[`{name}`](#systola-{name.replace(' ', '-')})" for name in names)
        lines.append(f"| {panel} | {links} |")
    for names in COMMANDS.values():
        for name in names:
            lines += ["", f"## systola {name}", "", *_command(_find(name), name)]
    return "\n".join(lines) + "\n"


def _find(name: str) -> "Command":
    first, *rest = name.split()
    command: Any = make_command(first)
    return typing.cast("Command", command.commands[rest[0]] if rest else command)


def _command(command: Any, name: str) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["systola", name, *map(_argument, arguments), "[OPTIONS]" * bool(options)])
    lines = [*_paragraphs(command.help), "", f"    {usage.strip()}", ""]
    if command.params:
        lines += ["| | default | |", "|---|---|---|"]
        lines += [f"| `{_argument(p)}` | {_default(p)} | {_cell(p.help)} |" for p in arguments]
        lines += [f"| {_spellings(p)} | {_default(p)} | {_cell(p.help)} |" for p in options]
    return lines


def _argument(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    name = parameter.name.upper() + "…" * (parameter.nargs == -1)
    return name if parameter.required else f"[{name}]"


def _spellings(parameter: Any) -> str:
    return ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or value == () or callable(value):
        return "required" if parameter.required else ""
    return "on" if value is True else f"`{value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _paragraphs(text: str | None) -> list[str]:
    """A docstring without its indent and without what only the terminal needs."""
    return inspect.cleandoc(text or "").replace("\b\n", "").splitlines()


def python_page() -> str:
    """docs/python.md: everything that `import systola` offers, from the docstrings."""
    # The public package imports the command line, so that it is imported here by name.
    package = importlib.import_module("systola")
    lines = [
        _NOTE.format("systola/__init__.py and the docstrings"),
        "",
        "# Python",
        "",
        *_code(inspect.getdoc(package) or ""),
    ]
    for name in package.__all__:
        lines += ["", f"## systola.{name}", "", *_member(name, getattr(package, name))]
    compiled = importlib.import_module("sw.compiler.frontend.compile_module").CompiledModule
    lines += ["", "## What systola.compile returns", "", *_member("CompiledModule", compiled)]
    return "\n".join(lines) + "\n"


def _member(name: str, found: Any) -> list[str]:
    if isinstance(found, dict):
        return [f"The presets by name: {', '.join(f'`{key}`' for key in found)}."]
    lines = []
    if not (isinstance(found, type) and issubclass(found, Exception)):
        lines += ["```python", *_signature(name, found), "```", ""]
    lines += _code(inspect.getdoc(found) or "")
    if isinstance(found, type):
        lines += _methods(found)
    return lines


def _signature(name: str, found: Any) -> list[str]:
    """One parameter a line where they do not fit in one."""
    signature = inspect.signature(found)
    parameters, last = [], None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and last is not parameter.kind:
            parameters.append("*")
        parameters.append(_parameter(parameter))
        last = parameter.kind
    result = signature.return_annotation
    tail = "" if result in (None, signature.empty) else f" -> {_type(result)}"
    line = f"{name}({', '.join(parameters)}){tail}"
    return (
        [line] if len(line) <= 88 else [f"{name}(", *(f"    {p}," for p in parameters), f"){tail}"]
    )


def _parameter(parameter: inspect.Parameter) -> str:
    several: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    stars = several.get(parameter.kind, "")
    text = f"{stars}{parameter.name}: {_type(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    shown = repr(parameter.default)
    return f"{text} = {'…' if shown.startswith('<') else shown}"


def _type(annotation: Any) -> str:
    """An annotation without the modules that its names come from."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=\w)", "", text)
    return re.sub(r"ndarray\[Any, dtype\[(\w+)\]\]", r"NDArray[\1]", text)


def _methods(found: type) -> list[str]:
    rows = []
    for name, member in vars(found).items():
        text = inspect.getdoc(member)
        public = callable(member) or isinstance(member, property)
        if name.startswith("_") or not text or not public:
            continue
        call = name if isinstance(member, property) else f"{name}()"
        rows.append(f"| `{call}` | {_cell(text.split(chr(10) * 2)[0])} |")
    return ["", "| member | |", "|---|---|", *rows] if rows else []


def _code(text: str) -> list[str]:
    """The lines of a docstring; what it indents is Python."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        indented = line.startswith("    ")
        if indented and not inside:
            lines.append("```python")
        if inside and not indented and line:
            while not lines[-1]:
                lines.pop()
            lines += ["```", ""]
        inside = indented or (inside and not line)
        lines.append(line[4:] if indented else line)
    return [*lines, "```"] if inside else lines

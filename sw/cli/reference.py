"""Pages of docs/ about what a user calls: docs/commands.md and docs/python.md."""

import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sw.cli.main import COMMANDS, make_command
from sw.measure.pages.markdown import code, document, fenced, heading, prose, table

if TYPE_CHECKING:
    from typer._click.core import Command

_INTRO = """
In a checkout the program is `.venv/bin/systola`. Its exit code is 0 if everything is done and
equal, 1 if a comparison failed, 2 for bad input, 130 if interrupted. The targets of the Makefile
call these commands; `make help` lists them.
"""


def commands_page() -> str:
    """docs/commands.md: every command with its arguments, options and defaults."""
    panels = [
        (panel, ", ".join(f"[`{name}`](#systola-{name.replace(' ', '-')})" for name in names))
        for panel, names in COMMANDS.items()
    ]
    sections = [block for names in COMMANDS.values() for name in names for block in _command(name)]
    overview = table(("", "commands"), panels)
    title = heading(1, "Command line")
    return document("systola pages commands", "sw/cli/", title, prose(_INTRO), overview, *sections)


def _find(name: str) -> "Command":
    first, *rest = name.split()
    command: Any = make_command(first)
    return typing.cast("Command", command.commands[rest[0]] if rest else command)


def _command(name: str) -> Iterator[str]:
    command: Any = _find(name)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["systola", name, *map(_argument, arguments), "[OPTIONS]" * bool(options)])
    yield heading(2, f"systola {name}")
    yield prose(inspect.cleandoc(command.help or "").replace("\b\n", ""))
    yield code(usage.strip())
    rows = [(f"`{_argument(p)}`", _default(p), _cell(p.help)) for p in arguments]
    rows += [(_spellings(p), _default(p), _cell(p.help)) for p in options]
    if rows:
        yield table(("", "default", ""), rows)


def _argument(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    name = parameter.name.upper() + "…" * (parameter.nargs == -1)
    return name if parameter.required else f"[{name}]"


def _spellings(parameter: Any) -> str:
    return ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or value in ((), "") or callable(value):
        return "required" if parameter.required else ""
    return "on" if value is True else f"`{value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split())


def python_page() -> str:
    """docs/python.md: everything that `import systola` offers, from the docstrings."""
    # The public package imports the command line, so that it is imported here by name.
    package = importlib.import_module("systola")
    blocks = [heading(1, "Python"), *_docstring(inspect.getdoc(package) or "")]
    for name in package.__all__:
        blocks += [heading(2, f"systola.{name}"), *_member(name, getattr(package, name))]
    compiled = importlib.import_module("sw.compiler.frontend.compile_module").CompiledModule
    blocks += [heading(2, "What systola.compile returns"), *_member("CompiledModule", compiled)]
    return document("systola pages python", "the docstrings of systola/", *blocks)


def _member(name: str, found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        yield f"The presets by name: {', '.join(f'`{key}`' for key in found)}."
        return
    if not (isinstance(found, type) and issubclass(found, Exception)):
        yield fenced("\n".join(_signature(name, found)), "python")
    yield from _docstring(inspect.getdoc(found) or "")
    if isinstance(found, type):
        yield _methods(found)


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


def _methods(found: type) -> str:
    rows = []
    ours = [c for c in found.__mro__ if c.__module__.startswith(("spec", "sw."))]
    members = {name: member for each in reversed(ours) for name, member in vars(each).items()}
    for name in {**vars(found), **members}:  # its own, then what it inherits
        member = members[name]
        text = inspect.getdoc(member)
        public = callable(member) or isinstance(member, property)
        if name.startswith("_") or not text or not public:
            continue
        call = name if isinstance(member, property) else f"{name}()"
        rows.append((f"`{call}`", _cell(text.split("\n\n")[0])))
    return table(("member", ""), rows) if rows else ""


def _docstring(text: str) -> Iterator[str]:
    """The paragraphs of a docstring; what it indents is Python."""
    for indented, lines in groupby(_with_blanks(text), lambda line: line.startswith("    ")):
        block = "\n".join(line[4:] if indented else line for line in lines).strip("\n")
        yield fenced(block, "python") if indented else block


def _with_blanks(text: str) -> Iterator[str]:
    """The lines; an empty one counts as indented if the next one that is not empty is."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        after = next((later for later in lines[i:] if later), "")
        yield line or ("    " if after.startswith("    ") else "")

"""Python files as models, read without running them: what functions they have."""

import ast
from pathlib import Path

from spec.errors import SystolaError
from spec.names import did_you_mean


class SourceError(SystolaError, ValueError):
    """A Python file is named where one of its functions is wanted."""


def is_source(name: str) -> bool:
    """Whether `name` is a Python file, without the function that a model needs."""
    return name.endswith(".py")


def refuse_source(name: str) -> None:
    """`SourceError` for a Python file without a function: it says what to write."""
    path = Path(name)
    wanted = f"{name}: a model is a function of the file, path.py:function"
    if not path.is_file():
        raise SourceError(f"{wanted}; there is no file {path}{_beside(path)}")
    try:
        functions = functions_of(path)
    except (OSError, SyntaxError, ValueError) as error:
        raise SourceError(f"{wanted}; the file cannot be read: {error}") from None
    if not functions:
        raise SourceError(f"{wanted}; the file has no function without arguments")
    raise SourceError(f"{wanted}; try {' or '.join(f'{name}:{text}' for text in functions)}")


def _beside(path: Path) -> str:
    folder = path.parent
    known = [file.name for file in folder.glob("*.py")] if folder.is_dir() else []
    return did_you_mean(path.name, known)


def functions_of(path: Path) -> list[str]:
    """The public functions at the top of a file that can be called without arguments."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not _required(node.args)
    ]


def _required(arguments: ast.arguments) -> int:
    """How many arguments a call must give."""
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional + sum(default is None for default in arguments.kw_defaults)

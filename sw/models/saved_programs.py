"""Programs saved by `torch.export.save` (`.pt2`), read without running what the file says.

`torch.export.load` unpickles objects, resolves operators by attribute (`torch.os.system` is one),
evaluates symbolic sizes as Python and loads compiled libraries. Here an archive is looked through
first: tensors by PyTorch's restricted unpickler, the program's text against what exported programs
consist of. `trust` skips that, for files of one's own.
"""

import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spec.errors import SystolaError

_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed|torchao|torchvision|higher_order)"
    r"(\.(?!__)\w+|\.__(?:and|or|xor|lshift|rshift)__(?=\.)){1,2}"
    r"|torch\.sym_\w+"
    r"|math\.[a-z]\w*"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_"
    r"|or_|not_|lshift|rshift)"
)
_FORBIDDEN = ("torch.ops.aten.from_file",)
"""Operators that reach outside of the program."""
_NAME = re.compile(r"\w[\w.]*", re.ASCII)
"""Parameters of `nn.Sequential` have names such as `0.weight`."""
_EXPRESSION = re.compile(
    r"(?:Symbol\('[a-z]++[0-9]++'(?:, [a-z]++=(?:True|False))*+\)|[A-Z]\w*+(?=\()|True|False|oo"
    r"|[a-z]++[0-9]++(?![\w(])|[0-9]++(?:\.[0-9]++)?|[-+*/%(),<>=~&|! ])*+",
    re.ASCII,
)
"""Sizes and conditions: functions in capitals, symbols such as s0, numbers, signs."""
_TREE = re.compile(r"builtins\.(tuple|list|dict)|transformers\.modeling_outputs\.\w+", re.ASCII)
"""Containers of arguments and results that PyTorch makes without importing anything."""

_MOST_BYTES = 16 << 30


class SavedProgramError(SystolaError, ValueError):
    """A `.pt2` file that is none, or one that holds more than tensors and operators."""


def load_pt2(path: Path, trust: bool = False) -> Any:
    """The `ExportedProgram` in `path`.

    trust: load whatever is in it, as `torch.export.load` does, which can run any code.
    `SavedProgramError` says what is wrong, or what was found that is not known to be harmless.
    """
    if not path.is_file():
        raise SavedProgramError(f"{path}: no such file")
    if path.stat().st_size > _MOST_BYTES:
        raise SavedProgramError(f"{path}: {path.stat().st_size:,} bytes; at most {_MOST_BYTES:,}")
    try:
        # Read once: what is checked is what is loaded.
        data = path.read_bytes()
    except OSError as error:
        raise SavedProgramError(f"{path}: cannot read: {error.strerror}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not trust:
            _guarded(path, lambda: _check(path, data))
        return _guarded(path, lambda: _load(data, trust))


def _guarded(path: Path, call: Callable[[], Any]) -> Any:
    """What PyTorch raises, as one message; what it logs meanwhile is not shown."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        return call()
    except (SavedProgramError, MemoryError):
        raise
    except Exception as error:
        text = str(error).strip().splitlines()
        first = text[0] if text else repr(error)
        raise SavedProgramError(f"{path}: no program of torch.export.save: {first[:300]}") from None
    finally:
        logger.setLevel(level)


def _load(data: bytes, trust: bool) -> Any:
    import torch

    if trust:
        return torch.export.load(io.BytesIO(data))
    from torch.export.pt2_archive._package import load_pt2 as load_archive

    # Not torch.export.load, which falls back to an older format that was not checked.
    programs = load_archive(io.BytesIO(data)).exported_programs
    if "model" not in programs:
        raise ValueError(
            f"it holds programs {', '.join(programs) or 'none'}, and none called model"
        )
    return programs["model"]


# What an archive may hold --------------------------------------------------------------------


def _check(path: Path, data: bytes) -> None:
    from torch.export.pt2_archive._package import PT2ArchiveReader

    with PT2ArchiveReader(io.BytesIO(data)) as archive:
        names = archive.get_file_names()
        for name in names:
            if name.startswith("data/aotinductor/"):
                raise _refused(path, f"compiled code {name}")
            if name.startswith("models/"):
                _check_program(path, _json(archive, name))
            elif name.startswith("data/sample_inputs/") or _is_legacy(name):
                _check_tensors(path, name, archive.read_bytes(name))
            elif name.endswith("_config.json"):
                for file in _unpickled(path, _json(archive, name)):
                    folder = name.rpartition("/")[0]
                    _check_tensors(path, file, archive.read_bytes(f"{folder}/{file}"))


def _is_legacy(name: str) -> bool:
    return name.startswith(("data/weights/", "data/constants/")) and name.endswith(".pt")


def _json(archive: Any, name: str) -> Any:
    return json.loads(archive.read_bytes(name))


def _refused(path: Path, what: str) -> SavedProgramError:
    return SavedProgramError(
        f"{path}: holds {what}; loading that can run code, so it is refused; "
        "with --trust everything in the file is loaded"
    )


def _unpickled(path: Path, config: Any) -> Iterator[str]:
    """The files of a table of weights or constants that PyTorch would unpickle."""
    for name, entry in config["config"].items():
        file = str(entry["path_name"])
        if file.startswith(("custom_obj", "opaque_obj")):
            raise _refused(path, f"{name}, an object that is no tensor ({file})")
        if entry.get("use_pickle"):
            yield file


def _check_tensors(path: Path, name: str, data: bytes) -> None:
    """Refuse a pickle that holds anything but tensors and plain containers."""
    import pickle

    import torch

    if not data:
        return
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error)) or re.search(r"global:? (\S+)", str(error))
        what = f"global {found[1]}" if found else "an object that is no tensor"
        raise _refused(path, f"{what} in {name}") from None


def _check_program(path: Path, program: Any) -> None:
    if program.get("guards_code"):
        raise _refused(path, f"guards written in Python, {str(program['guards_code'])[:60]}")
    for key, value in _values(program):
        if key in ("target", "as_operator"):
            known = isinstance(value, str) and _OPERATOR.fullmatch(value)
            if not known or value.startswith(_FORBIDDEN):
                raise _refused(path, f"operator {str(value)[:60]}")
        elif key == "expr_str":
            if not (isinstance(value, str) and _EXPRESSION.fullmatch(value)) or len(value) > 1000:
                raise _refused(path, f"expression {str(value)[:60]}")
        elif key in ("name", "forward_arg_names", "parameter_name", "buffer_name"):
            if isinstance(value, str) and not _NAME.fullmatch(value):
                raise _refused(path, f"name {value[:60]!r}")
        elif key in ("in_spec", "out_spec") and value:
            _check_tree(path, value)


def _check_tree(path: Path, text: str) -> None:
    for key, value in _values(json.loads(text)):
        if key == "type" and value is not None and not _TREE.fullmatch(str(value)):
            raise _refused(path, f"arguments of type {str(value)[:60]}")


def _values(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of everything that is no container; elements of a list have the list's key."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _values(value, str(name))
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, key)
    else:
        yield key, node

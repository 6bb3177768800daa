"""Reads Liberty files into a tree of groups, without a meaning for any of them.

A statement is `name (arguments) { … }` (a group), `name (arguments);` or `name : value;`. One
regular expression takes a whole statement at a time, the tables of numbers included, so that a
file of 20 MB takes about two seconds.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sw.synth.errors import SynthError

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STATEMENT = re.compile(
    r"""[\s;]*(?:
        (?P<name>[\w.\[\]]+)\s*
        (?: \((?P<arguments>(?:"[^"]*"|[^()"])*)\)\s*(?P<opens>\{)?
          | :\s*(?P<value>"[^"]*"|[^;\n{}]*) )
      | (?P<closes>\}) )""",
    re.VERBOSE,
)
_ITEM = re.compile(r'"([^"]*)"|([^\s,"]+)')


@dataclass(slots=True)
class Group:
    """`kind (arguments) { … }`: its attributes by name and the groups in it."""

    kind: str
    arguments: list[str]
    attributes: dict[str, list[str]] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.arguments[0] if self.arguments else ""

    def all(self, kind: str) -> Iterator["Group"]:
        """The groups of that kind directly in this one."""
        return (group for group in self.groups if group.kind == kind)

    def text(self, name: str, default: str = "") -> str:
        """The first value of an attribute."""
        values = self.attributes.get(name)
        return values[0] if values else default

    def number(self, name: str, default: float) -> float:
        """The first value of an attribute as a number; `SynthError` if it is none."""
        text = self.text(name)
        if not text:
            return default
        try:
            return float(text)
        except ValueError:
            message = f"{self.kind} ({self.name}): {name} : {text}: not a number"
            raise SynthError(message) from None


def read_text(path: Path) -> str:
    """The text of a `.lib` file or a `.lib.gz`; `SynthError` if there is none to read."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SynthError(f"Liberty file {path}: {reason}") from None
    return data.decode("utf-8", errors="replace")


def parse(text: str, where: str) -> Group:
    """The group `library` of a Liberty text. where: what to call the text in a message."""
    text = _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text).replace("\\\n", " \n")
    root = Group("", [])
    open_groups = [(root, 0)]
    position, end = 0, len(text.rstrip(" \t\r\n;"))
    while position < end:
        found = _STATEMENT.match(text, position)
        if found is None or (found["closes"] and len(open_groups) == 1):
            raise _no_liberty(where, text, position)
        group = open_groups[-1][0]
        if found["closes"]:
            open_groups.pop()
        elif found["opens"]:
            inner = Group(found["name"], _items(found["arguments"]))
            group.groups.append(inner)
            open_groups.append((inner, position))
        else:
            arguments = found["arguments"]
            value = found["value"] if arguments is None else None
            items = _items(arguments) if value is None else [value.strip().strip('"').strip()]
            group.attributes.setdefault(found["name"], []).extend(items)
        position = found.end()
    if len(open_groups) > 1:
        group, begun = open_groups[-1]
        line = text.count("\n", 0, begun) + 2
        raise SynthError(
            f"Liberty file {where}: the file ends inside {group.kind} ({group.name}), which begins "
            f"near line {line}; is it complete?"
        )
    if [group.kind for group in root.groups] != ["library"]:
        raise _no_liberty(where, text, 0)
    return root.groups[0]


def _items(arguments: str) -> list[str]:
    """Arguments in order; each is a word or what stands in quotes."""
    return [quoted or word for quoted, word in _ITEM.findall(arguments)]


def _no_liberty(where: str, text: str, position: int) -> SynthError:
    start = position + len(text[position:]) - len(text[position:].lstrip())
    line = text.count("\n", 0, start) + 1
    shown = text[start : start + 40].split("\n")[0]
    return SynthError(
        f"Liberty file {where}, line {line}: {shown!r} is no Liberty; expected one group "
        "`library (NAME) { … }` of cells (a .lib file, or a .lib.gz)"
    )

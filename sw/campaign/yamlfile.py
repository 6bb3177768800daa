"""YAML files with checked keys and values: every complaint names the file and the place in it.

Anchors, aliases and tags are refused: nothing here needs them, and a short file with them can stand
for a huge one.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spec.names import did_you_mean
from sw.results.task import CampaignError

_MOST_BYTES = 1 << 20
_MOST_DEPTH = 32
_MOST_WHOLE = 2**63 - 1


class Node:
    """A value of a YAML file at `place` (`smoke.yaml: entries[2]`)."""

    def __init__(self, plain: Any, place: str) -> None:
        self.plain = plain
        self.place = place

    def error(self, text: str) -> CampaignError:
        return CampaignError(f"{self.place}: {text}")

    def keys(self, *known: str) -> None:
        """`CampaignError` unless this is a mapping with no other keys."""
        if not isinstance(self.plain, Mapping):
            raise self.error(f"{shown(self.plain)}: must be a mapping with {', '.join(known)}")
        for key in self.plain:
            if key not in known:
                near = did_you_mean(str(key), known)
                raise self.error(f"{shown(key)}: no such key{near}; keys are {', '.join(known)}")

    def has(self, key: str) -> bool:
        return key in self.plain

    def value(self, key: str) -> Any:
        if key not in self.plain:
            raise self.error(f"{key} is missing")
        return self.plain[key]

    def child(self, key: str) -> "Node":
        return Node(self.value(key), f"{self.place}: {key}")

    def nodes(self, key: str) -> list["Node"]:
        """The elements of a list, of which there is at least one."""
        value = self.value(key)
        if not isinstance(value, list) or not value:
            raise self.error(f"{key} {shown(value)}: must be a list that is not empty")
        return [Node(item, f"{self.place}: {key}[{i}]") for i, item in enumerate(value)]

    def text(self, key: str, default: str) -> str:
        value = self.plain.get(key, default)
        if not isinstance(value, str):
            raise self.error(f"{key} {shown(value)}: must be a text")
        return value

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        if key not in self.plain and default is not None:
            return default
        for item in self.nodes(key):
            if not isinstance(item.plain, str):
                raise item.error(f"{shown(item.plain)}: must be a text")
        return list(self.plain[key])

    def wholes(self, key: str) -> list[int]:
        for item in self.nodes(key):
            if not _is_whole(item.plain):
                raise item.error(f"{shown(item.plain)}: must be a whole number from 0")
        return list(self.plain[key])

    def whole(self, key: str, default: int, most: int = _MOST_WHOLE) -> int:
        value = self.plain.get(key, default)
        if not _is_whole(value):
            raise self.error(f"{key} {shown(value)}: must be a whole number from 0")
        if value > most:
            raise self.error(f"{key} {value}: at most {most:,}")
        return int(value)

    def number(self, key: str, default: float) -> float:
        value = self.plain.get(key, default)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not 0 <= value <= _MOST_WHOLE or not math.isfinite(value):
            raise self.error(f"{key} {shown(value)}: must be a number from 0")
        return float(value)


def read_yaml(path: Path) -> Node:
    """The root of a file; `CampaignError` if it cannot be read or is no mapping."""
    plain = _parsed(_text(path), path)
    if not isinstance(plain, Mapping):
        raise CampaignError(f"{path}: must be a mapping of keys to values")
    return Node(plain, path.name)


def shown(value: Any) -> str:
    """A value for a message, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise CampaignError(f"{path}: cannot read: it is no file")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise CampaignError(f"{path}: more than {_MOST_BYTES:,} bytes: no file of this kind")
        return data.decode("utf-8")
    except CampaignError:
        raise
    except UnicodeDecodeError as error:
        raise CampaignError(f"{path}: cannot read: no UTF-8 text: {error}") from None
    except (OSError, ValueError) as error:
        raise CampaignError(f"{path}: cannot read: {error}") from None


def _parsed(text: str, path: Path) -> Any:
    import yaml

    try:
        _check_events(yaml.parse(text, yaml.SafeLoader), path)
        root = yaml.compose(text, yaml.SafeLoader)
        for node in _mappings(root):
            _check_keys(node, path)
        return yaml.safe_load(text)
    except CampaignError:
        raise
    except yaml.YAMLError as error:
        raise CampaignError(f"{path}: no YAML: {error}") from None
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
        # The conversion of a scalar: a date that is none, a number of thousands of digits.
        raise CampaignError(f"{path}: a value that cannot be read: {error}") from None


def _check_events(events: Iterator[Any], path: Path) -> None:
    """The parser walks without recursion: depth is bounded before anything that recurses."""
    import yaml

    depth = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise CampaignError(f"{path}, line {line}: anchors and aliases are not supported")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None):
            raise CampaignError(f"{path}, line {line}: tag {event.tag}: tags are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MOST_DEPTH:
            raise CampaignError(f"{path}, line {line}: more than {_MOST_DEPTH} levels deep")


def _mappings(node: Any) -> Iterator[Any]:
    """The mapping nodes under `node`."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        yield node
        for key, value in node.value:
            yield from _mappings(key)
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _mappings(item)


def _check_keys(node: Any, path: Path) -> None:
    """`CampaignError` for a key that is no text, or that a mapping has twice."""
    seen = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag != "tag:yaml.org,2002:str":
            raise CampaignError(f"{path}, line {line}: key {shown(key.value)}: must be a text")
        if key.value in seen:
            raise CampaignError(f"{path}, line {line}: key {key.value!r} is given twice")
        seen.add(key.value)


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_WHOLE

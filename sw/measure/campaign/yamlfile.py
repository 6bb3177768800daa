"""YAML files with checked keys and values: every complaint names the file and the place in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sw.measure.campaign.task import CampaignError


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
            raise self.error(f"{self.plain!r}: must be a mapping with {', '.join(known)}")
        for key in self.plain:
            if key not in known:
                raise self.error(f"{key!r}: no such key; keys are {', '.join(known)}")

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
            raise self.error(f"{key} {value!r}: must be a list that is not empty")
        return [Node(item, f"{self.place}: {key}[{i}]") for i, item in enumerate(value)]

    def text(self, key: str, default: str) -> str:
        value = self.plain.get(key, default)
        if not isinstance(value, str):
            raise self.error(f"{key} {value!r}: must be a text")
        return value

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        if key not in self.plain and default is not None:
            return default
        for item in self.nodes(key):
            if not isinstance(item.plain, str):
                raise item.error(f"{item.plain!r}: must be a text")
        return list(self.plain[key])

    def wholes(self, key: str) -> list[int]:
        for item in self.nodes(key):
            if not _is_whole(item.plain) or item.plain < 0:
                raise item.error(f"{item.plain!r}: must be a whole number from 0")
        return list(self.plain[key])

    def whole(self, key: str, default: int) -> int:
        value = self.plain.get(key, default)
        if not _is_whole(value) or value < 0:
            raise self.error(f"{key} {value!r}: must be a whole number from 0")
        return int(value)

    def number(self, key: str, default: float) -> float:
        value = self.plain.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self.error(f"{key} {value!r}: must be a number from 0")
        return float(value)


def read_yaml(path: Path) -> Node:
    """The root of a file; `CampaignError` if it cannot be read or is no mapping."""
    import yaml

    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path}: cannot read: {error}") from None
    except yaml.YAMLError as error:
        raise CampaignError(f"{path}: no YAML: {error}") from None
    if not isinstance(plain, Mapping):
        raise CampaignError(f"{path}: must be a mapping of keys to values")
    return Node(plain, path.name)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

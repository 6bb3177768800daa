"""The values of an axis, and axes that stand for fields which depend on each other."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from spec.config import NpuConfig
from spec.names import did_you_mean
from sw.campaign.yamlfile import Node, shown
from sw.results.task import CampaignError

Choice = Mapping[str, int | bool]
"""A value for each of some fields or axes."""

FIELDS: dict[str, Any] = {f.name: f.type for f in dataclasses.fields(NpuConfig) if f.name != "name"}


DEPENDENT = ("size", "acc_vectors")
"""Axes that are no fields."""


def changed_fields(base: NpuConfig, choice: Choice) -> dict[str, int | bool]:
    """The fields that a value for each axis changes, in the order of the axes."""
    cols = choice.get("size", choice.get("cols", base.cols))
    changes: dict[str, int | bool] = {}
    for name, value in choice.items():
        if name == "size":
            changes |= {"rows": value, "cols": value}
        elif name == "acc_vectors":
            # Rounded up: where the vectors fill no whole KiB, the rule of acc_kib says so.
            changes["acc_kib"] = -(-value * cols * 4 // 1024)
        else:
            changes[name] = value
    return changes


def axis_values(axes: Node, name: str) -> Sequence[int | bool]:
    """The values of an axis: those of a list, or of a range; each once."""
    _check_name(axes.place, name)
    node = axes.child(name)
    if isinstance(node.plain, Mapping):
        return _range(node, name)
    values = [_value(item, name) for item in axes.nodes(name)]
    twice = next((v for i, v in enumerate(values) if v in values[:i]), None)
    if twice is not None:
        raise node.error(f"{twice} is given twice")
    return values


def point_value(node: Node, name: str) -> int | bool:
    """A value that the field can have as far as its type goes."""
    return _value(node, name)


def _check_name(place: str, name: str) -> None:
    known = [*FIELDS, *DEPENDENT]
    if name not in known:
        raise CampaignError(
            f"{place}: {name!r}: no such configuration field{did_you_mean(name, known)}; "
            f"fields are {', '.join(known)}"
        )


def _value(node: Node, name: str) -> int | bool:
    kind = FIELDS.get(name, int)
    if type(node.plain) is not kind:
        wanted = "true or false" if kind is bool else "a whole number"
        raise node.error(f"{shown(node.plain)}: {name} must be {wanted}")
    return node.plain


def _range(node: Node, name: str) -> list[int]:
    node.keys("from", "to", "step", "times")
    if FIELDS.get(name, int) is bool:
        raise node.error(f"{shown(node.plain)}: {name} is true or false, which has no range")
    first, last = (_bound(node, key) for key in ("from", "to"))
    if first > last:
        raise node.error(f"an empty range: from {first} is above to {last}")
    if node.has("step") == node.has("times"):
        raise node.error(f"{shown(node.plain)}: needs either step or times")
    if node.has("step"):
        step = node.whole("step", 1)
        if step < 1:
            raise node.error(f"step {step}: must be 1 or more")
        return list(range(first, last + 1, step))
    times = node.whole("times", 2)
    if times < 2 or first < 1:
        raise node.error(f"from {first}, times {times}: from must be 1 or more, times 2 or more")
    values = [first]
    while values[-1] * times <= last:
        values.append(values[-1] * times)
    return values


def _bound(node: Node, key: str) -> int:
    node.value(key)
    return node.whole(key, 0, most=1 << 20)

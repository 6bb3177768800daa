"""What a user supplies with a model's name: data, the policy, and trust in its file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from spec.names import did_you_mean
from sw.compiler.frontend.quantization.precision import PLAIN, Precision
from sw.compiler.frontend.quantization.values import Policy
from sw.runtime.session import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """inputs: `.npy` files to run, one per argument. calibration: likewise, to find ranges on.

    policy: how values become integers; `auto` is a built-in network's own. precision: layers that
    read 16 bits. trust: a `.pt2` file may hold any Python object, and is loaded all the same.
    shapes: (name, sizes) of inputs of an ONNX or LiteRT file that leaves sizes open.
    """

    inputs: tuple[Path, ...] = ()
    calibration: tuple[Path, ...] = ()
    policy: Policy = "auto"
    precision: Precision = PLAIN
    trust: bool = False
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()


NOTHING = Supplied()


def input_shapes(texts: Sequence[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """`NAME=1x3x320x320` as (NAME, (1, 3, 320, 320)); `OptionError` for what has another form."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        if not name or not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", sizes, re.ASCII):
            raise OptionError(f"--input-shape {text}: must be NAME=SIZExSIZE…, as x=1x3x224x224")
        found[name] = tuple(map(int, sizes.split("x")))
    return tuple(found.items())


def refuse_shapes(name: str, supplied: Supplied, why: str) -> None:
    """`OptionError` for shapes with what is no file that leaves sizes open."""
    if supplied.shapes:
        raise OptionError(f"--input-shape: {name} {why}; leave it out")


def policy_named(name: str) -> Policy:
    """The policy called `name`; `OptionError` lists them."""
    for policy in get_args(Policy):
        if name == policy:
            found: Policy = policy
            return found
    known = get_args(Policy)
    near = did_you_mean(name, known)
    raise OptionError(f"--policy {name}: must be one of {', '.join(known)}{near}")

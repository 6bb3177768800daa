"""What a user supplies with a model's name: data, the policy, and trust in its file."""

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
    """

    inputs: tuple[Path, ...] = ()
    calibration: tuple[Path, ...] = ()
    policy: Policy = "auto"
    precision: Precision = PLAIN
    trust: bool = False


NOTHING = Supplied()


def policy_named(name: str) -> Policy:
    """The policy called `name`; `OptionError` lists them."""
    for policy in get_args(Policy):
        if name == policy:
            found: Policy = policy
            return found
    known = get_args(Policy)
    near = did_you_mean(name, known)
    raise OptionError(f"--policy {name}: must be one of {', '.join(known)}{near}")

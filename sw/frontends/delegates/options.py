"""The options of `torch.compile(backend="systola")`, by when a stored program has them decided."""

from collections.abc import Collection, Mapping
from typing import Any

from spec.names import did_you_mean
from sw.runtime.session import OptionError
from sw.torch_backend.options import Options, parse_options

AHEAD = ("config", "policy", "rows", "calibration", "fallback", "cache", "progress")
"""When a model is lowered."""

RUN = ("device", "latency", "stall", "seed", "clock_mhz", "memory", "verify", "check")
"""When its programs run."""


def all_options(given: Mapping[str, Any]) -> Options:
    """Options of what lowers a model and runs it; `OptionError` for one that does not exist."""
    return _parsed(given, (*AHEAD, *RUN), (), "")


def ahead_options(given: Mapping[str, Any]) -> Options:
    """Options of lowering alone; `OptionError` for one that does not exist, or is a run's."""
    return _parsed(given, AHEAD, RUN, "is decided where the program runs: give it to load")


def run_options(given: Mapping[str, Any]) -> Options:
    """Options of a run; `OptionError` for one that does not exist, or is lowering's."""
    options = _parsed(given, RUN, AHEAD, "is decided when a model is lowered: the file has it")
    if options.verify and options.device != "rtl":
        raise OptionError(
            f"options: verify=True: compares the RTL with the golden model, not device "
            f"{options.device}; leave it out"
        )
    return options


def _parsed(
    given: Mapping[str, Any], names: Collection[str], elsewhere: Collection[str], why: str
) -> Options:
    for name in given:
        if name in elsewhere:
            raise OptionError(f"options: {name}={given[name]!r}: {why}")
        if name not in names:
            raise OptionError(
                f"options: {name!r}: no such option{did_you_mean(name, names)}; "
                f"options are {', '.join(names)}"
            )
    return parse_options(given)

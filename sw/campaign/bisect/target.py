"""The run that a bisection repeats: its title as reports print it, or `workload,config,device`."""

import re
from dataclasses import replace

from spec.dram import IDEAL, MEMORIES
from spec.names import did_you_mean
from sw.campaign.measures.conformance import PREFIX, check_config
from sw.campaign.plan import config_of
from sw.campaign.workloads import check_workload
from sw.results.task import CampaignError, Kind, Task
from sw.runtime.session import DEVICES

_FORM = "write a run's title as reports print it, or WORKLOAD[,CONFIG[,DEVICE]]"


def task_named(name: str, limit_s: float) -> Task:
    """The task of `digits tiny rtl seed 2 ddr4` or `digits,tiny,rtl`.

    What is left out is configuration default, device rtl, seed 0, memory ideal. `CampaignError` if
    a part of it does not exist, `ConfigError` for an illegal configuration.
    """
    words = name.split()
    if not words:
        raise CampaignError(f"run {name!r}: names nothing; {_FORM}")
    if len(words) == 1:
        words = _pieces(words[0])
    workload, config, device, *rest = [*words, *("", "default", "rtl")[len(words) :]]
    if device not in DEVICES:
        near = did_you_mean(device, DEVICES)
        raise CampaignError(
            f"run {name!r}: device {device!r} must be one of {', '.join(DEVICES)}{near}; {_FORM}"
        )
    npu = config_of(config)
    kind, text = _workload(workload)
    if kind is Kind.CONFORMANCE:
        check_config(npu)
    task = Task(kind=kind, config=npu, workload=text, device=device, limit_s=limit_s)
    return _with(task, rest, name)


def _pieces(word: str) -> list[str]:
    """`conv2d:h=7,w=9,tiny,rtl` at its last commas, where shapes have commas too."""
    parts: list[str] = []
    head, comma, tail = word.rpartition(",")
    if comma and tail in DEVICES:
        parts, word = [tail], head
    head, comma, tail = word.rpartition(",")
    if comma and (parts or "=" not in tail.partition("+")[0]):
        return [head, tail, *parts]
    return [word, *(["default", *parts] if parts else [])]


def _workload(text: str) -> tuple[Kind, str]:
    if re.fullmatch(r"programs:[0-9]+", text):
        return Kind.PROGRAMS, text
    if text.startswith(f"{PREFIX}:") and text.count(":") >= 2:
        return Kind.CONFORMANCE, text
    return Kind.RUN, check_workload(text)


def _with(task: Task, words: list[str], name: str) -> Task:
    """`seed 2 latency 63 stall 0.24`, `seed 2 lpddr4 stall 0.1`: pairs, and a memory's name."""
    facts: dict[str, object] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if word in MEMORIES:
            facts["memory"] = word
        elif word in ("seed", "latency") and left and left[0].isdecimal():
            facts[word] = int(left.pop(0))
        elif word == "stall" and left and re.fullmatch(r"0(\.[0-9]+)?", left[0]):
            facts[word] = float(left.pop(0))
        else:
            raise CampaignError(f"run {name!r}: {word!r} says nothing of a run; {_FORM}")
    if facts.get("memory", IDEAL) != IDEAL and "latency" in facts:
        raise CampaignError(f"run {name!r}: {facts['memory']} has its own latency; leave it out")
    return replace(task, **facts)  # type: ignore[arg-type]

"""What a regression came to as JUnit XML, which servers of continuous integration read.

A `testsuite` for each configuration and device, a `testcase` for each run. Failed and timed out:
`failure`; could not be carried out or did not run because of another one: `error`; quarantined or
interrupted: `skipped`.
"""

import platform
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sw.campaign.summary import is_quarantined, repeat_command
from sw.results.store import Run
from sw.results.task import Status

_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
_TAGS = {
    Status.FAILED: "failure",
    Status.TIMEOUT: "failure",
    Status.ERROR: "error",
    Status.BLOCKED: "error",
    Status.WAITING: "skipped",
    Status.RUNNING: "skipped",
    Status.ILLEGAL: "skipped",
}


def write_junit(path: Path, name: str, runs: Sequence[Run], facts: Mapping[str, str]) -> None:
    """Write `path`. facts: properties of every suite (commit, digest of sources, campaign)."""
    root = junit(name, runs, facts)
    ElementTree.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def junit(name: str, runs: Sequence[Run], facts: Mapping[str, str]) -> ElementTree.Element:
    """The document's root."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        device = run.task.device or run.task.kind.value
        groups.setdefault((run.task.config_name, device), []).append(run)
    root = ElementTree.Element("testsuites", name=name)
    for (config, device), members in groups.items():
        root.append(_suite(f"{name} {config} {device}", f"{name}.{device}", members, facts))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(map(_seconds, runs)):.3f}")
    return root


def _suite(
    name: str, package: str, runs: Sequence[Run], facts: Mapping[str, str]
) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_clean(name))
    properties = ElementTree.SubElement(suite, "properties")
    config = runs[0].task
    known = {
        **facts,
        "configuration": config.config_name,
        "configuration_digest": config.digest,
        "device": config.device,
    }
    for key, value in known.items():
        ElementTree.SubElement(properties, "property", name=key, value=_clean(value))
    cases = [_case(run, f"{package}.{config.config_name}") for run in runs]
    suite.extend(cases)
    tags = [child.tag for case in cases for child in case]
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.set("tests", str(len(runs)))
    for key, tag in counts.items():
        suite.set(key, str(tags.count(tag)))
    suite.set("time", f"{sum(map(_seconds, runs)):.3f}")
    began = min((run.started_at for run in runs if run.started_at), default="")
    suite.set("timestamp", began[:19] or "1970-01-01T00:00:00")
    suite.set("hostname", _clean(platform.node() or "localhost"))
    return suite


def _case(run: Run, package: str) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        name=_clean(run.task.title),
        classname=_clean(package),
        time=f"{_seconds(run):.3f}",
    )
    outcome = run.outcome
    message = outcome.message if outcome else ""
    if is_quarantined(run):
        reason = f"quarantined: {run.task.quarantine}"
        _child(case, "skipped", reason, f"{run.status.value}: {message}", kind="quarantined")
    elif run.status is not Status.PASSED:
        text = message or f"did not run: the campaign was interrupted ({run.status.value})"
        _child(case, _TAGS[run.status], text.partition("\n")[0], _detail(run, text), run.status)
    said = _figures(run)
    if said:
        ElementTree.SubElement(case, "system-out").text = _clean(said)
    return case


def _child(case: ElementTree.Element, tag: str, message: str, text: str, kind: str) -> None:
    marks = {"message": _clean(message)} | ({} if tag == "skipped" else {"type": str(kind)})
    ElementTree.SubElement(case, tag, marks).text = _clean(text)


def _detail(run: Run, message: str) -> str:
    """Everything that a reader needs: the message, where it arises, how to do it again."""
    lines = [message]
    mismatch = run.outcome.mismatch if run.outcome else None
    lines += [f"{key}: {value}" for key, value in (mismatch or {}).items()]
    command = repeat_command(run.task)
    if command:
        lines.append(f"repeat: {command}")
    return "\n".join(lines)


def _figures(run: Run) -> str:
    if run.outcome is None:
        return ""
    figures: dict[str, Any] = {
        "cycles": run.outcome.cycles,
        "compared": run.outcome.compared or None,
        "image": run.outcome.image_digest or None,
    }
    return "\n".join(f"{key}: {value}" for key, value in figures.items() if value is not None)


def _seconds(run: Run) -> float:
    """From start to end of the last attempt; 0 if it did not run."""
    if not run.started_at or not run.finished_at:
        return 0.0
    began, ended = map(datetime.fromisoformat, (run.started_at, run.finished_at))
    return max(0.0, (ended - began).total_seconds())


def _clean(text: str) -> str:
    """`text` without what XML cannot have, such as the escapes of a coloured log."""
    return _NOT_XML.sub("�", text)

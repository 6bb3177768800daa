"""`systola results`: what the database of results has, and what changed between two campaigns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sw.cli.options import RESULTS, DatabaseOption, JsonOption
from sw.cli.output import console

if TYPE_CHECKING:
    from sw.results.archive import CampaignFacts
    from sw.results.compare import Change, Differences
    from sw.runtime.tables import FittedTable

KindOption = Annotated[
    str, typer.Option("--kind", help="only regress, sweep, mutants, conformance or bench")
]
NameOption = Annotated[str, typer.Option("--name", help="only of this suite or space")]
_WHICH = "campaign number, latest, latest~1, or commit"
_PROBLEMS = ("failed", "timeout", "error", "blocked")


def results_list(
    kind: KindOption = "",
    name: NameOption = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="so many, the newest")] = 20,
    database: DatabaseOption = RESULTS,
    json_file: JsonOption = None,
) -> None:
    """List campaigns, the newest first."""
    from sw.results.archive import open_archive
    from sw.runtime.report import write_json

    with open_archive(database) as history:
        found = history.campaigns(kind=kind, name=name, limit=limit)
        where = history.store.location  # without a password
    if json_file is not None:
        write_json([facts.to_json() for facts in found], json_file)
    console().print(_campaign_table(found))
    typer.echo(f"{where}: {len(found)} campaigns" + (" (--limit)" * (len(found) == limit)))


def results_show(
    number: Annotated[int, typer.Argument(metavar="ID", help="of the campaign")],
    runs: Annotated[bool, typer.Option("--runs", help="every run, not only what failed")] = False,
    database: DatabaseOption = RESULTS,
    json_file: JsonOption = None,
) -> None:
    """Show a campaign: counts, what failed and where first, and the command that repeats it."""
    from sw.results.archive import open_archive
    from sw.runtime.report import write_json

    with open_archive(database) as history:
        facts = history.campaign(number)
        rows = history.runs([number])
    if json_file is not None:
        write_json({**facts.to_json(), "runs": [dict(row) for row in rows]}, json_file)
    for line in _head(facts):
        typer.echo(line)
    if runs:
        console().print(_run_table(rows))
    for row in rows:
        if row["status"] in _PROBLEMS:
            for line in _problem(row, facts):
                typer.echo(line)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(facts.counts.items()))
    typer.echo(f"campaign {number}: {counts or 'no runs'}")


def results_compare(
    before: Annotated[str, typer.Argument(metavar="A", help=_WHICH)],
    after: Annotated[str, typer.Argument(metavar="B", help=_WHICH)],
    kind: KindOption = "",
    name: NameOption = "",
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, help="percent of cycles that count as a change")
    ] = 0.5,
    pcc_threshold: Annotated[
        float, typer.Option("--pcc-threshold", min=0, help="difference of PCC that counts")
    ] = 0.001,
    database: DatabaseOption = RESULTS,
    json_file: JsonOption = None,
) -> None:
    """Say what changed from A to B; exit code 1 if anything got worse."""
    from sw.results.archive import open_archive
    from sw.results.compare import differences
    from sw.runtime.report import write_json

    with open_archive(database) as history:
        old = history.select(before, kind=kind, name=name)
        new = history.select(after, kind=kind, name=name)
    found = differences(old, new, cycles=threshold / 100, pcc=pcc_threshold)
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if found.changes:
        console().print(_change_table(found))
    typer.echo(
        f"{found.before} → {found.after}: {found.matched} runs compared, "
        f"{len(found.changes)} changes, {found.worse} to the worse"
    )
    if found.worse:
        raise typer.Exit(1)


def results_export(
    to: Annotated[Path, typer.Option("--to", help="file: .csv, .parquet or .json")],
    kind: KindOption = "",
    name: NameOption = "",
    campaign: Annotated[
        list[int] | None, typer.Option("--campaign", help="only that number; repeatable")
    ] = None,
    database: DatabaseOption = RESULTS,
) -> None:
    """Write runs with all of their columns to a file for other programs."""
    from sw.results.archive import open_archive
    from sw.results.export import check_export, export_runs

    check_export(to)
    with open_archive(database) as history:
        numbers = [history.campaign(number).number for number in campaign or ()]
        if not campaign:
            numbers = [facts.number for facts in history.campaigns(kind=kind, name=name)]
        rows = history.runs(numbers)
    export_runs(rows, to)
    typer.echo(f"{to}: {len(rows):,} runs of {len(numbers)} campaigns")


def _campaign_table(found: "Sequence[CampaignFacts]") -> "FittedTable":
    from sw.runtime.tables import FittedTable, left, right

    columns = [right("id"), left("kind"), left("name", fold=12), left("commit"), left("begun", 1)]
    counts = [right("runs"), right("passed"), right("other"), left("finished", 2)]
    table = FittedTable([*columns, *counts])
    for facts in found:
        total, passed = sum(facts.counts.values()), facts.counts.get("passed", 0)
        table.add_row(
            *(str(facts.number), facts.kind, facts.name, facts.commit, _time(facts.created_at)),
            *(str(total), str(passed), str(total - passed or "–"), _time(facts.finished_at)),
        )
    return table


def _head(facts: "CampaignFacts") -> list[str]:
    finished = _time(facts.finished_at) if facts.finished_at else "something is left"
    lines = [
        f"campaign {facts.number}  {facts.kind} {facts.name}",
        f"  commit     {facts.commit}, sources {facts.source_digest}",
        f"  begun      {_time(facts.created_at)} by process {facts.process}, finished: {finished}",
    ]
    if facts.machine is not None:
        machine = facts.machine
        memory = f"{machine['memory_mib'] / 1024:.1f} GiB"
        versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
        lines += [
            f"  machine    {machine['host']}: {machine['cpu']}, {machine['cores']} cores, {memory}",
            f"  versions   Python {machine['python']}, {versions}",
        ]
    return lines


def _run_table(rows: Sequence[Mapping[str, Any]]) -> "FittedTable":
    from sw.results.archive import run_title
    from sw.runtime.tables import FittedTable, left, right

    table = FittedTable(
        [
            *(left("run", fold=24), left("status"), right("cycles"), right("predicted", 1)),
            *(right("PCC", 2), right("attempts", 3), right("s", 1), left("worker", 3)),
        ]
    )
    for row in rows:
        table.add_row(
            *(run_title(row), row["status"], _number(row["cycles"])),
            *(_number(row["predicted_cycles"]), _number(row["pcc"]), str(row["attempts"])),
            *("" if row["duration_s"] is None else f"{row['duration_s']:.1f}", row["worker"]),
        )
    return table


def _problem(row: Mapping[str, Any], facts: "CampaignFacts") -> list[str]:
    """A run that is not good: what it said, the first wrong instruction, how to repeat it."""
    from sw.campaign.summary import repeat_row
    from sw.results.archive import run_title

    lines = [f"{row['status'].upper()}  {run_title(row)}"]
    lines += [f"    {line}" for line in (row["message"] or "").splitlines()]
    mismatch = row["mismatch"] or {}
    if mismatch.get("instruction") is not None:
        lines.append(
            f"    first differs: instruction {mismatch['instruction']} "
            f"`{mismatch.get('text') or '?'}` of layer {mismatch.get('layer') or '?'}"
        )
    command = repeat_row(row, facts.kind, facts.name)
    return [*lines, f"    repeat: {command}"] if command else lines


def _change_table(found: "Differences") -> "FittedTable":
    from sw.runtime.tables import FittedTable, left, right

    table = FittedTable(
        [
            *(left("run", fold=24), left("what"), right("before"), right("after")),
            *(right("change"), left("")),
        ]
    )
    for change in found.changes:
        table.add_row(
            *(change.title, change.what, _number(change.before), _number(change.after)),
            *(_share(change), "" if change.direction == "other" else change.direction.value),
        )
    return table


def _share(change: "Change") -> str:
    if change.change is None:
        return ""
    return f"{change.change:+.2%}" if change.what == "cycles" else f"{change.change:+.4f}"


def _number(value: float | str | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.5f}"


def _time(text: str | None) -> str:
    """UTC, to the second."""
    return (text or "").replace("T", " ")[:19]

"""`systola regress`: a suite on golden and RTL."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.campaigns.common import run_plan
from sw.cli.campaigns.report import write_beside
from sw.cli.options import CAMPAIGN, Campaign, JsonOption, OnlyOption, writable_file

if TYPE_CHECKING:
    from sw.results.store import Run, Store
    from sw.results.task import Task


def regress(
    suite: Annotated[str, typer.Argument(help="smoke, evening, nightly, or a YAML file")] = "smoke",
    only: OnlyOption = "",
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="seconds that one run may take")
    ] = None,
    quarantine: Annotated[
        Path | None,
        typer.Option("--quarantine", help="YAML list of known failures (the release's own)"),
    ] = None,
    campaign: Campaign = CAMPAIGN,
    json_file: JsonOption = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", help="write JUnit XML to this file", callback=writable_file),
    ] = None,
) -> None:
    """Run a suite on golden and RTL in parallel; interrupted and started again it goes on."""
    from datetime import UTC, datetime

    from sw.campaign.regress.estimate import estimate
    from sw.campaign.regress.junit import write_junit
    from sw.campaign.regress.quarantine import QUARANTINE, load_quarantine, notes, quarantined
    from sw.campaign.regress.suite import load_suite
    from sw.campaign.summary import exit_code, status_table, to_json
    from sw.results.history import durations
    from sw.results.revision import commit, source_digest
    from sw.runtime.report import write_json
    from sw.runtime.session import OptionError

    if time_limit is not None and time_limit <= 0:
        raise OptionError(f"--time-limit {time_limit:g}: must be above 0 seconds")
    today = datetime.now(UTC).date()
    entries = load_quarantine(quarantine or QUARANTINE)
    plan = quarantined(load_suite(suite, only=only, limit_s=time_limit), entries, today)

    def report(runs: "Sequence[Run]") -> None:
        """What is written of every end, also of an interrupted one."""
        for line in notes(entries, runs, today, whole=not only):
            typer.echo(line)
        if json_file is not None:
            write_json(to_json(runs), json_file)
        if junit is not None:
            facts = {"commit": commit() or "unknown", "source_digest": source_digest()}
            write_junit(junit, f"regress {plan.name}", runs, facts)

    def announce(store: "Store", left: "Sequence[Task]", jobs: int) -> str:
        return str(estimate(left, jobs, durations(store)))

    runs = run_plan("regress", plan, {"only": only}, campaign, status_table, report, announce)
    write_beside(campaign.database, "regress", plan.name)
    raise typer.Exit(exit_code(runs))

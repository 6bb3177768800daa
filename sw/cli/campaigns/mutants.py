"""`systola mutants`: whether the checks notice a broken RTL."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.campaigns.common import run_plan
from sw.cli.options import CAMPAIGN, Campaign, OnlyOption


def mutants(
    only: OnlyOption = "",
    campaign: Campaign = CAMPAIGN,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="write the page of what caught each")
    ] = None,
) -> None:
    """Break the RTL in one place at a time: some check must notice each; resumable."""
    from sw.campaign.mutants.mutations import mutant_plan
    from sw.campaign.mutants.page import mutations_page
    from sw.campaign.summary import exit_code, status_table
    from sw.runtime.report import write_text
    from sw.runtime.session import OptionError

    if only and out is not None:
        raise OptionError("--out: the page has every mutation; leave out --only")
    plan = mutant_plan(only=only)
    runs = run_plan("mutants", plan, {"only": only}, campaign, status_table)
    if out is not None:
        write_text(mutations_page(runs), out)
    raise typer.Exit(exit_code(runs))

"""`systola conformance`: the official TOSA suite on the NPU."""

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import LOCAL_CAMPAIGN, ConfigOption, JsonOption, LocalCampaign, SeedOption
from sw.cli.output import console

if TYPE_CHECKING:
    from sw.measure.conformance.chunk import Verdict


def conformance(
    operators: Annotated[
        list[str] | None, typer.Argument(metavar="[OPERATOR]…", help="default: all of them")
    ] = None,
    device: Annotated[str, typer.Option("--device", "-d", help="golden or rtl")] = "golden",
    config: ConfigOption = "small",
    negative: Annotated[
        bool, typer.Option("--negative", help="tests that must be refused (ERROR_IF)")
    ] = False,
    random: Annotated[
        int, typer.Option("--random", min=0, help="so many random tests of each operator instead")
    ] = 0,
    seed: SeedOption = 0,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=1, help="seconds that one test may take")
    ] = 1200.0,
    campaign: LocalCampaign = LOCAL_CAMPAIGN,
    json_file: JsonOption = None,
) -> None:
    """Run the official TOSA integer suite; interrupted and started again it goes on."""
    from spec.config import preset
    from sw.measure.conformance.chunk import Setting, Status
    from sw.measure.conformance.conduct import conduct
    from sw.measure.conformance.store import Verdicts
    from sw.measure.conformance.suite import Suite, all_operators
    from sw.measure.conformance.summary import record, summary, table
    from sw.results.revision import commit
    from sw.runtime.report import write_json
    from sw.runtime.session import DeviceOptions

    DeviceOptions(device=device)
    suite = Suite(
        operators=tuple(operators or all_operators()),
        test_type="negative" if negative else "positive",
        random=random,
        seed=seed if random else 0,
    )
    setting = Setting(device=device, config=config, test_type=suite.test_type, limit_s=time_limit)
    start = time.monotonic()

    def progress(operator: str, new: "list[Verdict]") -> None:
        bad = sum(v.status is not Status.PASSED for v in new)
        typer.echo(
            f"{time.monotonic() - start:6.0f} s  {operator}: {len(new)} tests, {bad} not passed"
        )

    npu = preset(config)
    with Verdicts(
        campaign.database, suite.name, device, npu, fresh=campaign.fresh, retry=campaign.retry
    ) as store:
        verdicts = conduct(
            suite, setting, store, jobs=campaign.jobs or os.cpu_count() or 1, progress=progress
        )
    wall_s = time.monotonic() - start
    console().print(table(summary(verdicts)))
    if json_file is not None:
        write_json(record(suite.name, device, config, wall_s, verdicts, commit()), json_file)
    passed = sum(v.status is Status.PASSED for v in verdicts.values())
    typer.echo(
        f"{suite.name} on {device} {config}: {passed} of {len(verdicts)} pass, {wall_s:.0f} s; "
        f"{store.place}"
    )
    if passed < len(verdicts) or not verdicts:
        raise typer.Exit(1)

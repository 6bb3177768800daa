"""What a configuration needs before anything runs on it: RTL without complaints, a simulator."""

import time

from sw.campaign.measures.bench import Bench, config_of, quiet
from sw.results.task import Outcome, Status, Task


def build(task: Task, bench: Bench) -> Outcome:
    """The configuration's simulator, from the cache or made now."""
    from sw.runtime.simulator.build import build_simulator

    start = time.monotonic()
    build_simulator(config_of(task), say=quiet).release()
    return Outcome(status=Status.PASSED, figures={"build_s": round(time.monotonic() - start, 1)})


def lint(task: Task, bench: Bench) -> Outcome:
    """Generate the RTL and read it with Verilator's -Wall."""
    from sw.runtime.simulator.lint import lint as check

    return Outcome(status=Status.PASSED, figures={"verilog_lines": check(config_of(task))})

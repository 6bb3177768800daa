"""Tasks, and processes that write results: `python tests/results_helpers.py WHERE NAME RUNS`."""

import os
import subprocess
import sys
import time
from pathlib import Path

from spec import preset
from sw.results.store import Store
from sw.results.task import CampaignError, Kind, Outcome, Status, Task

ROOT = Path(__file__).resolve().parent.parent
TINY = preset("tiny")


def task(number: int = 0, **values: object) -> Task:
    facts = {"kind": Kind.RUN, "workload": "matmul:3x5x7", "config": TINY, "device": "golden"}
    return Task(**{**facts, "seed": number, **values})


def passed(cycles: int = 0, **values: object) -> Outcome:
    return Outcome(status=Status.PASSED, cycles=cycles, **values)


def start_writer(where: str, name: str, runs: int, pause: float = 0.0) -> subprocess.Popen:
    """A process that carries out a campaign of `runs` runs, with a pause in the fourth."""
    return subprocess.Popen(
        [sys.executable, __file__, where, name, str(runs), str(pause)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def write(where: str, name: str, runs: int, pause: float) -> None:
    with Store(where) as store:
        campaign = store.campaign("regress", name, [task(i) for i in range(runs)], options={})
        for run in campaign.runs():
            if run.status is Status.WAITING:
                campaign.start(run.id, worker=f"process {os.getpid()}")
                time.sleep(pause if run.task.seed == 3 else 0)
                campaign.finish(run.id, passed(run.task.seed))
        campaign.close(complete=True)


if __name__ == "__main__":
    try:
        write(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    except CampaignError as error:
        sys.exit(f"refused: {error}")

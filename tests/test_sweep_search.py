"""Fronts and hypervolumes against brute force; searches: legal, repeatable, resumable, good."""

import itertools
import os
import random
import signal
from pathlib import Path

import pytest
from campaign_helpers import finish, query, start, systola, wait_for

from sw.campaign.measure import carry_out
from sw.campaign.measures.bench import Bench, Unheard
from sw.campaign.sweep.pareto import dominates, front, hypervolume, reference_of
from sw.campaign.sweep.points import point_results
from sw.campaign.sweep.search.ask import Asker, search
from sw.campaign.sweep.search.coverage import Table, coverage, measure_grid
from sw.campaign.sweep.search.proposers import METHODS, RandomProposer, proposer
from sw.campaign.sweep.search.rounds import costs_of
from sw.campaign.sweep.space import Space, load_space
from sw.campaign.sweep.tasks import grid_plan
from sw.cli.main import main
from sw.results.store import Run
from sw.results.task import CampaignError, Status

MODELS = """
base: small
axes: {rows: [4, 8, 16], cols: [4, 8, 12, 16], spad_kib: [32, 64, 128], acc_kib: [16, 24, 32]}
workloads: [matmul:40x24x48]
cycles: model
smoke: false
objectives: [cycles, pes, memory]
"""
LEGAL = 3 * (3 * 2 + 1) * 3


def models(tmp_path: Path, text: str = MODELS) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(text)
    return path


def rows(count: int, objectives: int, seed: int) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    return [tuple(rng.randrange(9) for _ in range(objectives)) for _ in range(count)]


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_fronts_and_volumes_are_those_of_brute_force(count: int, objectives: int) -> None:
    found = rows(count, objectives, seed=count)
    best = [i for i, a in enumerate(found) if not any(dominates(b, a) for b in found)]
    assert front(found) == best
    # Costs are whole numbers: the volume is the count of unit cubes that a row dominates.
    cubes = itertools.product(range(9), repeat=objectives)
    covered = sum(any(all(x <= c for x, c in zip(r, cube)) for r in found) for cube in cubes)
    assert hypervolume(found, (9,) * objectives) == covered


def test_what_is_not_below_the_reference_has_no_volume() -> None:
    assert hypervolume([], (1, 1)) == 0
    assert hypervolume([(1, 0), (0.5, 0.5)], (1, 1)) == 0.25
    assert hypervolume([(0, 0), (0, 0)], (2, 3)) == 6
    assert reference_of([(0.0, 5.0), (10.0, 5.0)]) == (11.0, 5.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_tries_each_legal_point_once_and_is_told_of_the_others(
    tmp_path: Path, method: str
) -> None:
    space = load_space(models(tmp_path))
    told: list[object] = []
    asked = proposer(method, space.axes, 3, 5)
    hear = asked.hear
    asked.hear = lambda costs: (told.append(costs), hear(costs))  # type: ignore[method-assign]
    asker = Asker(space, asked, 5)
    points = search(asker, 30, 1, lambda ps: [cheap(p) for p in ps])
    digests = [point.config.digest_hex for point in points if point.config]
    assert len(set(digests)) == len(points) == 30
    assert asker.illegal > 3
    assert told.count(None) >= asker.illegal and len(told) - told.count(None) >= 25
    again = Asker(space, proposer(method, space.axes, 3, 5), 5)
    assert [p.label for p in search(again, 30, 1, lambda ps: [cheap(p) for p in ps])] == [
        p.label for p in points
    ]
    # All that is legal, and then no more.
    whole = Asker(space, proposer(method, space.axes, 3, 5), 5)
    assert len(search(whole, 1000, 8, lambda ps: [cheap(p) for p in ps])) == LEGAL


def cheap(point):
    return [point.config.rows, -point.config.cols, point.config.spad_kib]


def test_a_proposer_that_comes_upon_nothing_legal_gets_a_random_point(tmp_path: Path) -> None:
    space = load_space(models(tmp_path))

    class Stubborn(RandomProposer):
        def propose(self):
            return {"rows": 4, "cols": 12, "spad_kib": 32, "acc_kib": 16}

    asker = Asker(space, Stubborn(space.axes, 0), 0)
    assert len(asker.ask(5)) == 5 and asker.illegal == 1


def figures(space: Space) -> Table:
    """Costs of the whole grid, by the model."""
    bench = Bench(Unheard())
    found = [
        Run(
            id=number,
            task=task,
            status=Status.PASSED,
            started_at=None,
            finished_at=None,
            outcome=carry_out(task, bench),
        )
        for number, task in enumerate(grid_plan(space).tasks)
        if task.config is not None
    ]
    return {
        point.config.digest_hex: costs_of(space.objectives, point)
        for point in point_results(found)
        if point.config is not None
    }


def test_searches_of_a_part_of_a_grid_reach_nearly_all_of_its_hypervolume(tmp_path: Path) -> None:
    space = load_space(models(tmp_path))
    table = figures(space)
    assert len(table) == LEGAL
    for method in METHODS:
        shares = coverage(space, table, method, 30, 3)
        assert 0.85 < min(shares.linear) <= max(shares.linear) <= 1
        # Everything is all of it.
        assert coverage(space, table, method, LEGAL, 1).logarithmic == pytest.approx((1.0,))
    one = coverage(space, table, "random", 1, 3)
    assert max(one.linear) < 0.9
    with pytest.raises(CampaignError, match="must be a space of models alone"):
        measure_grid(load_space(models(tmp_path), objectives=["pes"], cycles="rtl"), tmp_path, 1)


def tasks(database: Path) -> list[tuple]:
    return query(database, "SELECT config_digest, workload, status, figures FROM runs ORDER BY 1")


def test_a_search_that_was_killed_goes_on_and_tries_no_point_twice(tmp_path: Path) -> None:
    space = models(tmp_path)
    options = [space, "--search", "tpe", "--seed", "3", "--out", tmp_path / "out"]
    whole, killed = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    code, text = systola("sweep", *options, "--trials", "24", "--db", whole)
    assert code == 0, text
    assert "24 trials, " in text and "illegal combinations left out" in text

    process = start("sweep", *options, "--trials", "24", "--db", killed)
    wait_for(lambda: killed.exists() and _passed(killed) >= 5)
    os.killpg(process.pid, signal.SIGKILL)
    finish(process)
    before = _passed(killed)
    code, text = systola("sweep", *options, "--trials", "24", "--db", killed)
    assert code == 0, text
    assert before <= 24 and "sweep models tpe seed 3 goes on with " in text
    assert tasks(killed) == tasks(whole)
    assert len({row[0] for row in tasks(whole)}) == len(tasks(whole)) == 24
    # More trials go on with the same search.
    code, text = systola("sweep", *options, "--trials", "26", "--db", killed)
    assert code == 0 and set(tasks(whole)) < set(tasks(killed)) and len(tasks(killed)) == 26
    assert (tmp_path / "out" / "points.csv").read_text().count("True") > 3


def _passed(database: Path) -> int:
    try:
        return query(database, "SELECT count(*) FROM runs WHERE status = 'passed'")[0][0]
    except Exception:  # the tables are not there yet
        return 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--search", "tp"], "--search tp: no such search (did you mean 'tpe'?); there are grid,"),
        (["--trials", "5"], "--trials and --budget: a grid is tried whole; add --search random"),
        (["--search", "tpe", "--trials", "0"], "--trials 0: must be 1 or more"),
        (["--search", "tpe", "--budget", "-1"], "--budget -1: must be above 0 minutes"),
        (["--search", "tpe", "--budget", "nan"], "--budget nan: must be minutes above 0"),
        (["--search", "random", "--only", "x"], "--only x: it leaves points of a grid out"),
        (["--objectives", "speed"], "objective 'speed': no such objective"),
        (["--objectives", "area"], "objective area: the space must ask for an area of cells"),
        (["--cycles", "guess"], "cycles 'guess': must be rtl or model"),
    ],
)
def test_options_that_make_no_sense_are_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    arguments = ["sweep", models(tmp_path), "--db", tmp_path / "r.sqlite", *options]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert message in text and "Traceback" not in text


def test_a_search_needs_axes_objectives_and_something_legal(tmp_path: Path) -> None:
    space = load_space(models(tmp_path, MODELS.replace("rows: [4, 8, 16]", "rows: [500, 600]")))
    with pytest.raises(CampaignError, match="none of 72 points is legal") as error:
        Asker(space, RandomProposer(space.axes, 0), 0)
    assert "72 × rows=500: must lie in 2…128" in str(error.value)
    points = "points: [{base: tiny}]\nworkloads: [add]\ncycles: model\nsmoke: false\n"
    space = load_space(models(tmp_path, points))
    with pytest.raises(CampaignError, match="has no axes to search"):
        Asker(space, RandomProposer(space.axes, 0), 0)
    with pytest.raises(CampaignError, match="--search nsga2: needs objectives"):
        proposer("nsga2", space.axes, 0, 0)

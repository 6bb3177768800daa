"""The first bad commit, planted in repositories that know the command and nothing else."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from campaign_helpers import all_gone, family, finish, query, start, systola, wait_for

from sw.campaign.bisect.command import Bisection, Range, report
from sw.campaign.bisect.criterion import Criterion
from sw.campaign.bisect.repository import Repository
from sw.campaign.bisect.search import Found
from sw.campaign.bisect.target import task_named
from sw.campaign.bisect.trial import suite_text
from sw.campaign.regress.suite import load_suite
from sw.results.store import Store
from sw.results.task import CampaignError, Outcome, Status

STAND_IN = """
import json, os, sys, time
from pathlib import Path
import yaml

here = Path(__file__).resolve().parents[1]
assert Path.cwd() == here and sys.argv[1] == "regress", sys.argv
status, *cycles = (here / "behaviour.txt").read_text().split()
with open(os.environ["TRIALS"], "a") as trials:
    trials.write(status + "\\n")
if status == "stands":
    time.sleep(300)
if status == "dies":
    sys.exit("cannot be imported")
entry = yaml.safe_load(Path(sys.argv[2]).read_text())["entries"][0]
row = {"workload": entry["workloads"][0], "status": status, "message": f"{status} here"}
build = {"kind": "build", "status": "passed"}
row |= {"kind": "run", "cycles": int(cycles[0]) if cycles else None, "a_new_column": 1}
Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps([build, row]))
"""
RUN = "matmul:3x5x7 tiny rtl seed 2 latency 63 stall 0.25"


def git(root: Path, *arguments: str) -> str:
    who = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2026-11-02T10:00:00+00:00"}
    marks = {f"GIT_{role}_{key}": v for role in ("AUTHOR", "COMMITTER") for key, v in who.items()}
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        env={**os.environ, **marks, "GIT_CONFIG_GLOBAL": "/dev/null"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commits(root: Path, *behaviours: str) -> list[str]:
    """A repository with a commit for each behaviour; their hashes."""
    (root / "systola").mkdir(parents=True, exist_ok=True)
    (root / "systola" / "__main__.py").write_text(STAND_IN)
    if not (root / ".git").exists():
        git(root, "init", "-q", "-b", "main")
    made = []
    for behaviour in behaviours:
        (root / "behaviour.txt").write_text(behaviour)
        git(root, "add", "-A")
        number = len(git(root, "rev-list", "--all").splitlines())
        git(root, "commit", "-q", "--allow-empty", "-m", f"change {number}\n\nIt says {behaviour}.")
        made.append(git(root, "rev-parse", "HEAD"))
    return made


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIALS", str(tmp_path / "trials"))
    return tmp_path / "repository"


def trials(root: Path) -> list[str]:
    path = root.parent / "trials"
    return path.read_text().split() if path.exists() else []


def bisect(root: Path, where: Range, criterion: Criterion | None = None) -> tuple[Found, list[str]]:
    said: list[str] = []
    with Store(root.parent / "r.sqlite") as store:
        bisection = Bisection(task_named(RUN, 60), Repository(root), store, said.append)
        found = bisection.run(where, criterion or Criterion())
    assert git(root, "worktree", "list").count("\n") == 0
    return found, said


def test_the_first_of_16_commits_that_fails_is_found_and_each_result_is_stored(root: Path) -> None:
    made = commits(root, *["passed 70"] * 11, *["failed 71"] * 5)
    (root / "behaviour.txt").write_text("the user's own change")
    found, said = bisect(root, Range(good=made[0]))
    assert found.is_certain and found.suspects[0].sha == made[11]
    assert (found.before.commit, found.after.commit) == (made[10], made[11])
    text = report(found)
    assert text == [
        "first bad commit:",
        f"  {made[11]}  Ada, 2026-11-02T10:00:00+00:00",
        *("", "    change 11", "", "    It says failed 71.", ""),
        f"before: passed, 70 cycles ({made[10][:12]})",
        f"after:  failed, 71 cycles ({made[11][:12]})",
        "  failed here",
    ]
    # Both ends and four halves: no commit twice, and the user's tree is as it was.
    assert len(trials(root)) == 6 and len(said) == 8
    assert said[0].endswith(", 0 of them with stored results")
    assert said[3] == "bad is: it does not pass; at most 4 tries"
    assert (root / "behaviour.txt").read_text() == "the user's own change"
    rows = query(
        root.parent / "r.sqlite",
        "SELECT c.kind, c.name, r.git_commit, r.status, r.cycles FROM runs r "
        "JOIN campaigns c ON c.id = r.campaign WHERE r.dirty = 0 ORDER BY r.id",
    )
    assert [row[:2] for row in rows] == [("bisect", RUN)] * 6
    assert (made[11][:12], "failed", 71) in [row[2:] for row in rows]
    # Once more: everything is known, nothing is tried, and --good is not needed.
    again, said = bisect(root, Range())
    assert again.suspects == found.suspects and len(trials(root)) == 6
    assert said[1] == "bad is: it does not pass; at most 0 tries"


def test_a_rise_of_cycles_is_found(root: Path) -> None:
    cycles = [1000, 1004, 1004, 990, 990, 990, 1015, 1015, 1031, 1031, 1031, 1040]
    made = commits(root, *[f"passed {n}" for n in cycles])
    found, said = bisect(root, Range(good=made[0]), Criterion(rise=0.02))
    assert found.suspects[0].sha == made[8]
    assert (found.before.cycles, found.after.cycles) == (1015, 1031)
    assert "bad is: more than 1,020 cycles; at most 4 tries" in said
    found, _ = bisect(root, Range(good=made[0]), Criterion(cycles_above=1010))
    assert found.suspects[0].sha == made[6]
    with pytest.raises(CampaignError, match="is not bad but good: passed, 1,040 cycles"):
        bisect(root, Range(good=made[0]), Criterion(cycles_above=1040))


def test_commits_that_cannot_be_tested_are_passed_over(root: Path) -> None:
    states = (
        ["passed 7"] * 3 + ["dies"] * 3 + ["passed 7", "error", "failed 7", "blocked", "failed"]
    )
    made = commits(root, *states)
    found, _ = bisect(root, Range(good=made[0]))
    # The commit before the first failing one could not be tried: it may be either.
    assert [c.sha for c in found.suspects] == [made[7], made[8]] and not found.is_certain
    text = report(found)
    assert text[0] == (
        "the first bad commit is one of 2: those before the last could not be tested"
    )
    assert f"  {made[7][:12]}  change 7" in text
    # Where the bad commit has an error, errors are what is looked for.
    found, _ = bisect(root, Range(good=made[6], bad=made[7]))
    assert [c.sha for c in found.suspects] == [made[7]]


def test_a_merge_stands_for_what_it_brought(root: Path) -> None:
    first, second = commits(root, "passed 1", "passed 1")
    git(root, "checkout", "-q", "-b", "side", first)
    commits(root, "passed 1", "failed 1")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-X", "theirs", "-m", "merge side", "side")
    (root / "behaviour.txt").write_text("failed 1")
    git(root, "commit", "-qa", "--amend", "-m", "merge side")
    commits(root, "failed 1", "failed 1")
    found, _ = bisect(root, Range(good=first))
    assert found.suspects[0].subject == "merge side" and found.before.commit == second
    side = git(root, "rev-parse", "side")
    with pytest.raises(CampaignError, match="is no ancestor of "):
        bisect(root, Range(good=side))


def test_an_interrupted_search_leaves_no_worktree_and_goes_on(root: Path) -> None:
    made = commits(root, "passed 1", "passed 1", "stands", "passed 1", "failed 1")
    database = root.parent / "r.sqlite"
    arguments = ("bisect", RUN, "--good", made[0], "--db", database, "--repo", root)
    environment = {"TRIALS": os.environ["TRIALS"]}
    process = start(*arguments, env=environment)
    wait_for(lambda: "stands" in trials(root))
    below = list(family(process.pid))
    process.send_signal(signal.SIGINT)
    code, text = finish(process)
    assert code == 130 and "Traceback" not in text
    assert all_gone(below) and git(root, "worktree", "list").count("\n") == 0
    assert query(database, "SELECT count(*) FROM runs WHERE status = 'waiting'") == [(1,)]
    # What was tried before is known; the commit that stood still gets its time again.
    before = len(trials(root))
    code, text = systola(*arguments, "--bad", made[1], env=environment)
    assert code == 2 and "is not bad but good" in text
    git(root, "checkout", "-q", "-b", "mended", made[1])
    commits(root, "passed 1", "failed 1")
    code, text = systola(*arguments, env=environment)
    assert code == 0 and "first bad commit:" in text, text
    assert len(trials(root)) <= before + 4


def test_names_of_runs_are_titles_or_short() -> None:
    for title in (
        "digits tiny rtl seed 0",
        "digits tiny golden seed 3",
        "matmul:3x17x65 rect rtl seed 2 latency 63 stall 0.243",
        "add:h=9,c=3 default+bus_bytes=32 rtl seed 1 lpddr4 stall 0.1",
        "programs:20 tiny rtl seed 1000",
        "conformance:clamp:4 small rtl seed 11",
    ):
        assert task_named(title, 60).title == title
    for short, title in (
        ("digits", "digits default rtl seed 0"),
        ("digits,tiny", "digits tiny rtl seed 0"),
        ("digits,golden", "digits default golden seed 0"),
        ("add:c=3,h=9", "add:h=9,c=3 default rtl seed 0"),
        ("add:c=3,h=9,tiny,golden", "add:h=9,c=3 tiny golden seed 0"),
    ):
        assert task_named(short, 60).title == title


@pytest.mark.parametrize(
    "title",
    [
        "digits tiny rtl seed 3 latency 9 stall 0.5",
        "add:c=3 tiny rtl seed 0 ddr4",
        "add:c=3 tiny golden seed 1",
        "programs:2 tiny rtl seed 1000",
        "conformance:clamp:4 tiny golden seed 11",
        "conformance:clamp:clamp_1_i8,clamp_2_i8 tiny rtl seed 0",
    ],
)
def test_the_suite_that_a_commit_is_given_is_the_run_alone(tmp_path: Path, title: str) -> None:
    wanted = task_named(title, 60)
    path = tmp_path / "one.yaml"
    path.write_text(suite_text(wanted))
    assert [t.title for t in load_suite(str(path)).tasks if t.kind is wanted.kind] == [title]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "names nothing; write a run's title"),
        ("digits tiny fpga", "device 'fpga' must be one of rtl, golden"),
        ("digits tiny rtl sed 2", "'sed' says nothing of a run"),
        ("digits tiny rtl ddr4 latency 9", "ddr4 has its own latency"),
        ("digitz", "workload 'digitz': no such kernel, network"),
        ("digits,vast", "config 'vast': no such preset"),
        ("conformance:clamp:1 tiny+taps=5 rtl", "only presets can run these tests"),
    ],
)
def test_a_name_that_is_no_run_is_refused(name: str, message: str) -> None:
    with pytest.raises(Exception) as error:
        task_named(name, 60)
    assert message in str(error.value)


def test_criteria_that_make_no_sense_are_refused() -> None:
    for values, message in (
        ({"cycles_above": 1, "rise": 0.1}, "give one of them"),
        ({"cycles_above": 0}, "--cycles-above 0: must be 1 or more"),
        ({"rise": -0.1}, "--rise -10: must be above 0 percent"),
        ({"rise": float("nan")}, "must be above 0 percent"),
    ):
        with pytest.raises(CampaignError, match=message):
            Criterion(**values)


def test_what_the_user_gets_wrong_is_one_message(root: Path, tmp_path: Path) -> None:
    made = commits(root, "passed 1", "failed 1", "failed 1")
    for where, criterion, message in (
        (Range(good="nowhere"), Criterion(), "commit 'nowhere': "),
        (Range(good="--all"), Criterion(), "commit '--all': "),
        (Range(good=made[1]), Criterion(), "is not good but bad: failed, 1 cycles"),
        (Range(good=made[2]), Criterion(), "good and bad are the same commit"),
        (Range(bad=made[0]), Criterion(), "has no good result of a commit before"),
        (Range(), Criterion(rise=0.02), "--rise: needs --good"),
    ):
        with pytest.raises(CampaignError) as error:
            bisect(root, where, criterion)
        assert message in str(error.value)
    arguments = ("--db", tmp_path / "r.sqlite", "--repo", tmp_path)
    code, text = systola("bisect", RUN, *arguments)
    assert code == 2 and "no git repository" in text and "Traceback" not in text, text


def test_a_commit_whose_results_differ_in_form_says_nothing(root: Path, tmp_path: Path) -> None:
    """Rows of another release: a status that is not known here, or no row at all."""
    made = commits(root, "passed 1", "perhaps 1", "failed 1")
    found, said = bisect(root, Range(good=made[0]))
    assert [c.sha for c in found.suspects] == made[1:]
    assert any("blocked" in line for line in said)
    with Store(tmp_path / "s.sqlite") as store:
        campaign = store.campaign(
            "bisect", "x", [task_named(RUN, 1)], options={}, source=("f" * 12, "0" * 16)
        )
        (run,) = campaign.runs()
        campaign.finish(run.id, Outcome(status=Status.PASSED))
        campaign.close(complete=True)
    assert query(tmp_path / "s.sqlite", "SELECT git_commit, source_digest FROM campaigns") == [
        ("f" * 12, "0" * 16)
    ]

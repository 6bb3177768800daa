"""Mutations apply to the sources as they are, and what the tool says of a mutant is right."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sw.campaign.mutants import mutations as mutants
from sw.campaign.mutants.mutations import CHECKS, CONTROL, ROOT, load_mutations, mutant_plan
from sw.campaign.mutants.page import mutations_page
from sw.results.store import Run
from sw.results.task import CampaignError, Kind, Outcome, Status


def test_every_mutation_applies_to_a_copy_and_leaves_the_sources_alone(tmp_path: Path) -> None:
    mutations = load_mutations()
    assert len({m.name for m in mutations}) == len(mutations) >= 12
    files = {edit.file for m in mutations for edit in m.edits}
    before = {name: (ROOT / name).read_text() for name in files}
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    for mutation in mutations:
        for name, text in before.items():
            (tmp_path / name).write_text(text)
        mutants.apply(mutation, tmp_path)
        changed = {name for name, text in before.items() if (tmp_path / name).read_text() != text}
        assert changed == {edit.file for edit in mutation.edits}
        # Only hardware is broken: the golden model is what it is compared with.
        assert all(name.startswith(("hw_gen/blocks/", "rtl/")) for name in changed)
    assert before == {name: (ROOT / name).read_text() for name in files}


def test_the_plan_has_the_unchanged_copy_first_and_needs_it() -> None:
    tasks = mutant_plan().tasks
    assert tasks[0].workload == CONTROL and tasks[0].kind is Kind.MUTANT
    assert [t.workload for t in tasks[1:]] == [m.name for m in load_mutations()]
    assert all(t.needs == (tasks[0].key,) for t in tasks[1:])
    assert mutant_plan(only="no such mutation").tasks == ()


def test_a_mutation_that_does_not_apply_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mutations.yaml"
    text = "mutations: [{{name: x, what: y, {rest}}}]"
    edit = "edits: [{{file: {file}, find: {find}, replace: z}}]"
    for rest, message in (
        (edit.format(file="hw_gen/top.py", find="no such text"), "'no such text' occurs 0 times"),
        (edit.format(file="hw_gen/top.py", find="import"), "times in hw_gen/top.py, not once: the"),
        (edit.format(file="hw_gen/none.py", find="x"), "hw_gen/none.py: no such file"),
        ("edits: [], first: luck", "edits []: must be a list that is not empty"),
    ):
        path.write_text(text.format(rest=rest))
        with pytest.raises(CampaignError, match=re.escape(message)):
            load_mutations(path)


# A tree with checks of its own: what is asked is what a failing, passing, missing test leads to.
TESTS = {
    "good": "def test_good():\n    pass\n",
    "bad": "def test_good():\n    pass\n\ndef test_wrong():\n    assert 1 == 2\n",
    "empty": "",
    "skipped": "import pytest\n\n@pytest.mark.skip\ndef test_not():\n    pass\n",
    "broken": "import no_such_module\n",
}


@pytest.mark.parametrize(
    ("checks", "changed", "status", "message"),
    [
        (["good"], False, Status.PASSED, ""),
        (["good", "bad"], False, Status.FAILED, "bad fails unchanged"),
        (["good", "empty"], False, Status.ERROR, "empty: no test ran"),
        (["good", "skipped"], True, Status.ERROR, "skipped: no test ran"),
        (
            ["good", "bad"],
            True,
            Status.PASSED,
            "caught by test_bad.py::test_wrong\nE       assert 1",
        ),
        (["good"], True, Status.FAILED, "it survives: 1 tests pass although "),
        (["good", "broken"], False, Status.FAILED, "broken fails unchanged"),
    ],
)
def test_what_the_checks_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    checks: list[str],
    changed: bool,
    status: Status,
    message: str,
) -> None:
    for name in checks:
        (tmp_path / f"test_{name}.py").write_text(TESTS[name])
    mutation = load_mutations()[0] if changed else None
    monkeypatch.setattr(mutants, "CHECKS", {n: (f"test_{n}.py",) for n in checks})
    outcome = mutants._try_checks(tmp_path, mutation)
    assert outcome.status is status
    assert outcome.message.startswith(message) and bool(outcome.message) is bool(message)


def test_a_mutant_that_does_not_build_is_no_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = load_mutations()[0]
    (edit,) = mutation.edits
    broken = replace(mutation, edits=(replace(edit, replace="return ("),))
    monkeypatch.setattr(mutants, "load_mutations", lambda: [broken])
    outcome = mutants.carry_out(broken.name)
    assert outcome.status is Status.ERROR
    assert outcome.message.startswith("it does not build:\n") and "SyntaxError" in outcome.message


def test_the_page_names_survivors_and_what_caught_the_others() -> None:
    tasks = mutant_plan().tasks[1:]
    figures = {"caught_by": "kernels", "test": "tests/test_x.py::test_y[tiny]"}
    runs = [
        Run(
            id=i,
            task=task,
            status=status,
            started_at=None,
            finished_at=None,
            outcome=Outcome(status=status, figures=figures),
        )
        for i, (task, status) in enumerate(zip(tasks, (Status.PASSED, Status.FAILED)))
    ]
    rows = [line for line in mutations_page(runs).splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(tasks)
    assert rows[1].endswith("| kernels: `tests/test_x.py::test_y[tiny]` |")
    assert all(row.endswith("| **survives** |") for row in rows[2:])


def test_checks_are_parts_of_the_tests() -> None:
    for arguments in CHECKS.values():
        files = [ROOT / a for a in arguments if a.startswith("tests/")]
        assert files and all(file.is_file() for file in files)

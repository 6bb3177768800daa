"""docs/mutations.md: every mutation of the RTL with what noticed it."""

from collections.abc import Sequence

from sw.campaign.mutants.mutations import CONFIG, Mutation, load_mutations
from sw.measure.pages.markdown import document, heading, prose, table
from sw.results.store import Run
from sw.results.task import Status

_INTRO = f"""
This page shows whether the tests notice a broken design. `make mutants` breaks the RTL in one place
at a time, in a copy of the sources. It builds the simulator of `{CONFIG}` and runs parts of
`make test` until one fails. The exit code is 1 if no check notices a mutant. The same checks pass
on an unchanged copy, which is run first. The mutations are data, `tests/mutations.yaml`;
`make mutants` writes this page.
"""


def mutations_page(runs: Sequence[Run]) -> str:
    """Every mutation with what caught it in `runs`."""
    found = {run.task.workload: run for run in runs}
    head = ("mutation", "what is broken", "where", "caught by")
    cells = [
        (mutation.name, mutation.what, _files(mutation), _caught(found.get(mutation.name)))
        for mutation in load_mutations()
    ]
    title = heading(1, "Mutations: do the checks bite?")
    return document(
        "make mutants", "tests/mutations.yaml", title, prose(_INTRO), table(head, cells)
    )


def _files(mutation: Mutation) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(e.file for e in mutation.edits))


def _caught(run: Run | None) -> str:
    if run is None or run.status is not Status.PASSED or run.outcome is None:
        return "**survives**"
    return f"{run.outcome.figures['caught_by']}: `{run.outcome.figures['test']}`"

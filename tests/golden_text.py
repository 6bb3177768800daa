"""Golden text: a file under tests/golden/ that a test's text must equal.

`pytest --update-golden` writes the files anew; the change is then reviewed as a diff.
"""

import difflib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"


def compare(name: str, text: str, request: pytest.FixtureRequest) -> None:
    """Fail with the first differing lines unless golden file `name` holds `text`."""
    path = FOLDER / name
    if request.config.getoption("--update-golden"):
        path.write_text(text)
        return
    known = path.read_text() if path.is_file() else ""
    if text != known:
        lines = difflib.unified_diff(
            known.splitlines(), text.splitlines(), f"golden/{name}", "now", n=1, lineterm=""
        )
        shown = "\n".join([*lines][:40])
        pytest.fail(f"{name} changed; review, then pytest --update-golden:\n{shown}", pytrace=False)

"""What to suggest for a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.7
"""How alike names must be, from 0 to 1: `confg` is `config`, but not `json`."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The names most like `name`, as ` (did you mean 'default'?)`, or nothing.

    It goes behind the statement that there is no such name. Capitals do not count.
    """
    names = {text.lower(): text for text in known}
    near = get_close_matches(name.lower(), names, n=2, cutoff=_ALIKE)
    found = " or ".join(repr(names[text]) for text in near)
    return f" (did you mean {found}?)" if found else ""

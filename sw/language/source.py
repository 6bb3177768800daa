"""Lines of a kernel's source, for errors and for the text of programs."""

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path

_HERE = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """A line of a file; `place`: which of its calls."""

    path: str
    number: int
    place: int = 0

    @property
    def short(self) -> str:
        """File name and number."""
        return f"{Path(self.path).name}:{self.number}"

    def __str__(self) -> str:
        code = linecache.getline(self.path, self.number).strip()
        return f"{self.path}:{self.number}" + (f": {code}" if code else "")


NOWHERE = Line("", 0)


def is_ours(path: str) -> bool:
    """Whether a file is part of this package, and no user's."""
    return path.startswith(_HERE)


def caller() -> Line:
    """The innermost line that is not of this package: the statement of the kernel."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_lasti)

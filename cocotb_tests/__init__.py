"""Benches that run inside the simulator."""

import sys
from pathlib import Path
from types import ModuleType

# Benches share helpers with `tests`; some wheels install a package of that name, too.
_TESTS = ModuleType("tests")
_TESTS.__path__ = [str(Path(__file__).resolve().parent.parent / "tests")]
sys.modules.setdefault("tests", _TESTS)

"""What every test can rely on."""

import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

# A background job of a shell starts with SIGINT ignored, and so would every process that a test
# starts and then interrupts. A handler of our own becomes the default again when they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Wheels exist that install a package `tests` of their own: ours goes first whatever there is.
_TESTS = ModuleType("tests", "The helpers of these tests.")
_TESTS.__path__ = [str(Path(__file__).resolve().parent)]
sys.modules["tests"] = _TESTS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")

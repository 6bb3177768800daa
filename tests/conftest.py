"""What every test can rely on."""

import signal

import pytest

# A background job of a shell starts with SIGINT ignored, and so would every process that a test
# starts and then interrupts. A handler of our own becomes the default again when they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")

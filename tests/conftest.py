"""What every test can rely on."""

import gc
import os
import signal

import pytest

# Thousands of tests leave millions of objects of PyTorch and of the compiler that stay: Python's
# default looks through them for cycles after every 700 new ones, for a tenth of the time.
gc.set_threshold(100_000, 50, 100)

# Simulators of tests run for seconds: what takes long is to build them.
os.environ.setdefault("SYSTOLA_QUICK_BUILD", "1")

# A background job of a shell starts with SIGINT ignored, and so would every process that a test
# starts and then interrupts. A handler of our own becomes the default again when they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")

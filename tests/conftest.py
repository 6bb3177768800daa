"""What every test can rely on."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_server import PostgresServer

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


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server; tests that stop it start it again."""
    from postgres_server import PostgresServer, binaries

    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    server = PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of results, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "results.sqlite")
    url: str = request.getfixturevalue("postgres").new_database()
    return url

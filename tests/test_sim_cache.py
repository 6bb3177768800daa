"""The build cache: one build per key, nothing half-done, a limit that spares what is in use."""

import errno
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from sw.runtime.simulator.cache import BuildCache, default_limit
from sw.runtime.simulator.errors import BuildError

FORK = multiprocessing.get_context("fork")


def fill(size):
    def build(folder):
        (folder / "simulator").write_bytes(bytes(size))

    return build


def age(cache, key, seconds):
    then = time.time() - seconds
    os.utime(cache.root / "entries" / key, (then, then))


def keys(cache):
    return sorted(p.name for p in (cache.root / "entries").iterdir())


def test_an_entry_is_built_once(tmp_path):
    cache = BuildCache(tmp_path)
    calls = []

    def build(folder):
        calls.append(folder)
        (folder / "simulator").write_text("x")

    with cache.obtain("a", build) as first, cache.obtain("a", build) as second:
        assert first.path == second.path
        assert (first.path / "simulator").read_text() == "x"
    assert len(calls) == 1


def slow_build(root, log):
    def build(folder):
        with Path(log).open("a") as out:
            out.write(f"{os.getpid()}\n")
        time.sleep(0.5)
        (folder / "simulator").write_text("x")

    BuildCache(root).obtain("a", build).release()


def test_parallel_builds_of_one_key_do_not_collide(tmp_path):
    log = tmp_path / "log"
    workers = [FORK.Process(target=slow_build, args=(tmp_path / "c", log)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [w.exitcode for w in workers] == [0] * 4
    assert len(log.read_text().splitlines()) == 1


def test_a_failed_build_leaves_nothing(tmp_path):
    cache = BuildCache(tmp_path)

    def build(folder):
        (folder / "half").write_text("x")
        raise BuildError("no")

    with pytest.raises(BuildError, match="no"):
        cache.obtain("a", build)
    assert keys(cache) == []
    assert list((tmp_path / "building").iterdir()) == []
    cache.obtain("a", fill(1)).release()
    assert keys(cache) == ["a"]


def endless_build(root):
    def build(folder):
        (folder / "half").write_text("x")
        time.sleep(1000)

    BuildCache(root).obtain("a", build)


def test_a_killed_build_leaves_no_entry_and_no_lock(tmp_path):
    worker = FORK.Process(target=endless_build, args=(tmp_path,))
    worker.start()
    half = tmp_path / "building" / "a" / "half"
    while not half.exists():
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(10)
    cache = BuildCache(tmp_path)
    assert keys(cache) == []
    cache.evict()
    assert not half.exists(), "what killed builds leave is swept up"
    with cache.obtain("a", fill(1)) as entry:
        assert sorted(p.name for p in entry.path.iterdir()) == ["manifest.json", "simulator"]


def test_the_least_recently_used_entries_go_first(tmp_path):
    cache = BuildCache(tmp_path, limit=2500)
    for key, seconds in (("a", 30), ("b", 20)):
        cache.obtain(key, fill(1000)).release()
        age(cache, key, seconds)
    cache.obtain("a", fill(1000)).release()
    cache.obtain("c", fill(1000)).release()
    assert keys(cache) == ["a", "c"]
    assert cache.size() <= 2500


def test_an_entry_in_use_is_not_evicted(tmp_path):
    cache = BuildCache(tmp_path, limit=1500)
    held = cache.obtain("a", fill(1000))
    age(cache, "a", 100)
    cache.obtain("b", fill(1000)).release()
    assert keys(cache) == ["a", "b"]
    held.release()
    age(cache, "a", 100)
    assert cache.evict() == ["a"]
    assert keys(cache) == ["b"]


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="set SYSTOLA_CACHE to a folder that you can write"):
        BuildCache(tmp_path / "file" / "cache")


def test_the_limit_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv("SYSTOLA_CACHE_GB", raising=False)
    assert default_limit() == 5_000_000_000
    monkeypatch.setenv("SYSTOLA_CACHE_GB", "0.5")
    assert default_limit() == 500_000_000
    monkeypatch.setenv("SYSTOLA_CACHE_GB", "much")
    with pytest.raises(BuildError, match="SYSTOLA_CACHE_GB=much: must be a number of gigabytes"):
        default_limit()


def test_entries_are_counted_by_what_they_are(tmp_path):
    cache = BuildCache(tmp_path)
    for key in ("network-digits-1", "rtl-1", "torch-1", "torch-2", "0123456789abcdef"):
        cache.obtain(key, lambda folder: (folder / "file").write_bytes(b"12345")).release()
    assert cache.kinds() == {
        "generated RTL": (1, 5),
        "parts of torch.compile": (2, 10),
        "quantized networks": (1, 5),
        "simulators": (1, 5),
    }


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: os.truncate(entry / "simulator", 10),
        lambda entry: (entry / "simulator").write_bytes(b"\1" * 1000),
        lambda entry: (entry / "simulator").unlink(),
        lambda entry: (entry / "simulator").chmod(0o644),
        lambda entry: (entry / "more").touch(),
        lambda entry: (entry / "manifest.json").write_text("{}"),
        lambda entry: (entry / "manifest.json").write_text("[" * 100_000),
        lambda entry: (entry / "manifest.json").unlink(),
    ],
)
def test_an_entry_that_is_not_what_was_built_is_built_again(tmp_path, damage):
    cache = BuildCache(tmp_path)

    def build(folder):
        fill(1000)(folder)
        (folder / "simulator").chmod(0o755)

    with cache.obtain("a", build) as entry:
        damage(entry.path)
    with cache.obtain("a", build) as entry:
        assert (entry.path / "simulator").read_bytes() == bytes(1000)
        assert os.access(entry.path / "simulator", os.X_OK)
        assert sorted(p.name for p in entry.path.iterdir()) == ["manifest.json", "simulator"]


def test_a_damaged_entry_in_use_is_left_to_its_users(tmp_path):
    cache = BuildCache(tmp_path)
    with cache.obtain("a", fill(1000)) as entry:
        os.truncate(entry.path / "simulator", 10)
        with pytest.raises(BuildError, match="entries/a is damaged and in use; end the runs that"):
            cache.obtain("a", fill(1000))
    cache.obtain("a", fill(1000)).release()


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path):
    cache = BuildCache(tmp_path)

    def full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        BuildError, match=r"cannot be written \(No space left on device\); free som"
    ):
        cache.obtain("a", full)
    (tmp_path / "locks").rename(tmp_path / "other")
    (tmp_path / "locks").touch()
    with pytest.raises(BuildError, match=r"cannot be written \(Not a directory\).*SYSTOLA_CACHE"):
        cache.obtain("a", fill(1))
    assert keys(cache) == []

"""What a Dask worker runs: one function that tells what the worker is, one that does a task.

Both are called by their names, so that a worker runs its own sources: it has to have the same.
"""

import json
import socket
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from distributed import Status, Worker, get_worker

from sw.campaign.engine.children import Children
from sw.campaign.engine.order import Order
from sw.results.revision import source_digest

_RUNNING = (Status.running, Status.paused)
# A worker may be one of several in this process; its children go with it.
_children: "weakref.WeakKeyDictionary[Worker, Children]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def introduce() -> dict[str, Any]:
    """Facts of this worker: version of Python, digest of its sources as they are now, host."""
    return {
        "python": python_version(),
        "sources": source_digest.__wrapped__(),
        "host": socket.gethostname(),
    }


def python_version() -> str:
    """`3.11`."""
    return "{}.{}".format(*sys.version_info)


def perform(topic: str, orders: Sequence[tuple[int, dict[str, Any]]]) -> None:
    """Carry out orders (number, `Order.to_json`) one after the other in a child of this worker.

    Each one's `Report` is published under `topic` when it is there, as JSON with its number. A task
    that nobody waits for any more, or whose worker closes, is ended with its child.
    """
    worker = get_worker()
    key = worker.get_current_task()

    def stopped() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled" or worker.status not in _RUNNING

    for number, facts in orders:
        if stopped():
            return
        report = _children_of(worker).carry_out(Order.from_json(facts), stopped)
        worker.log_event(topic, json.dumps([number, report.to_json()]))


def end_children() -> None:
    """End the children of every worker in this process, with what they are at."""
    with _lock:
        found = list(_children.values())
    for children in found:
        children.close()


def _children_of(worker: Worker) -> Children:
    with _lock:
        if worker not in _children:
            _children[worker] = Children()
        return _children[worker]

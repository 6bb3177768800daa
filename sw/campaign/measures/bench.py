"""What a worker keeps from task to task."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from spec.config import NpuConfig
from sw.results.task import Outcome, Task
from sw.runtime.rtl import RtlDevice


class Tell(Protocol):
    """Hears of a task that is under way (`sw.campaign.engine.child`)."""

    def partial(self, outcome: Outcome) -> None:
        """This is certain already, while the task still looks for the cause."""

    def stage(self, name: str) -> None:
        """`build`: the task waits for its simulator. `run`: it goes on."""


class Unheard:
    """For tasks of which nobody hears before they are done."""

    def partial(self, outcome: Outcome) -> None: ...

    def stage(self, name: str) -> None: ...


class Bench:
    """What a worker keeps from task to task: one simulator, as starting it takes seconds."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self._device: RtlDevice | None = None

    def rtl(self, task: Task) -> RtlDevice:
        """The device of the task's configuration, with its memory."""
        config = config_of(task)
        if self._device is None or self._device.config != config:
            self.drop()
            with self.building():
                self._device = RtlDevice(config, say=quiet)
        self._device.set_memory(
            latency=task.latency, stall=task.stall, seed=task.seed, memory=task.memory
        )
        return self._device

    @contextmanager
    def building(self) -> Iterator[None]:
        """What happens here counts as the build of a simulator, not as the task itself."""
        self.tell.stage("build")
        yield
        self.tell.stage("run")

    def drop(self) -> None:
        """End the simulator; the next task gets a new one."""
        if self._device is not None:
            self._device.kill()
        self._device = None


def config_of(task: Task) -> NpuConfig:
    """The configuration of a task whose kind always has one."""
    assert task.config is not None, task.title
    return task.config


def quiet(_: str) -> None:
    """The parent shows what its workers are at."""

"""Waits and posts that a kernel gives itself (`sync="manual"`)."""

from collections.abc import Mapping, Sequence

from spec.config import NpuConfig
from spec.isa import SYNC_SLOTS, Engine, Point
from spec.isa import Sync as Slot
from sw.compiler.program.dependences import analyse
from sw.compiler.program.semaphores import Program
from sw.compiler.program.virtual import VirtualInstruction
from sw.language.steps import Semaphore, Step
from sw.language.trace import Trace


def semaphore(name: str = "semaphore") -> Semaphore:
    """A new semaphore, 0 when the kernel starts. `name` is for messages."""
    return Semaphore(name)


def manual_program(
    instructions: Sequence[VirtualInstruction],
    trace: Trace,
    origins: Mapping[VirtualInstruction, Step],
    config: NpuConfig,
) -> Program:
    """The program with the statements' own waits and posts, in the order of the source.

    The first instruction of a statement waits, the last one posts. Parameters and tables that a
    statement loads come before its own instruction, which waits for them by itself.
    """
    numbers = _Numbers(trace, config)
    waits: dict[VirtualInstruction, list[Slot]] = {}
    posts: dict[VirtualInstruction, list[Slot]] = {}
    groups: dict[Step, list[VirtualInstruction]] = {}
    for instruction in instructions:
        waits[instruction], posts[instruction] = [], []
        groups.setdefault(origins[instruction], []).append(instruction)
    for step, group in groups.items():
        own = [x for x in group if x.engine is group[-1].engine]
        for before in group[: len(group) - len(own)]:
            sem = numbers.implicit(own[0].engine)
            posts[before].append(Slot(sem=sem))
            waits[own[0]].append(Slot(sem=sem))
        for point, wanted in ((Point.DONE, step.sync.wait), (Point.WEIGHTS, step.sync.weights)):
            for each in wanted:
                sem = numbers.waited(each, own[0].engine, point, step)
                waits[own[0]].append(Slot(sem=sem, point=point))
        for point, given in ((Point.DONE, step.sync.post), (Point.READ, step.sync.read)):
            posts[own[-1]] += [
                Slot(sem=numbers.posted(s, own[-1].engine, point, step), point=point) for s in given
            ]
        if max(len(waits[own[0]]), len(posts[own[-1]])) > SYNC_SLOTS:
            raise trace.error(
                f"{step.label}: an instruction waits for, and posts to, {SYNC_SLOTS} semaphores",
                step.line,
            )
    return Program(
        instructions=instructions,
        waits=waits,
        posts=posts,
        semaphores={},
        dependences=analyse(instructions, {}),
    )


class _Numbers:
    """Numbers of semaphores, and who waits for each."""

    def __init__(self, trace: Trace, config: NpuConfig) -> None:
        self.trace, self.config = trace, config
        self._known: dict[object, int] = {}
        self._waiting: dict[Semaphore, tuple[Engine, Point, Step]] = {}
        self._posting: dict[Semaphore, tuple[Engine, Point, Step]] = {}

    def number(self, key: object, step: Step | None = None) -> int:
        if key not in self._known and len(self._known) == self.config.semaphores:
            raise self.trace.error(
                f"more than {self.config.semaphores} semaphores, which is what configuration "
                f"{self.config.name} has",
                self.trace.line if step is None else step.line,
            )
        return self._known.setdefault(key, len(self._known))

    def implicit(self, engine: Engine) -> int:
        """Of what is loaded for statements of an engine."""
        return self.number(engine)

    def waited(self, key: Semaphore, engine: Engine, point: Point, step: Step) -> int:
        """The number of a semaphore that `step` waits for; one engine may do so."""
        self._alone(self._waiting, "waits for", key, engine, point, step)
        return self.number(key, step)

    def posted(self, key: Semaphore, engine: Engine, point: Point, step: Step) -> int:
        """The number of a semaphore that `step` posts to; one engine may, at one point."""
        # Of two engines' posts the first would end a wait for the other.
        self._alone(self._posting, "posts to", key, engine, point, step)
        return self.number(key, step)

    def _alone(
        self,
        known: dict[Semaphore, tuple[Engine, Point, Step]],
        verb: str,
        key: Semaphore,
        engine: Engine,
        point: Point,
        step: Step,
    ) -> None:
        other = known.setdefault(key, (engine, point, step))
        if other[:2] != (engine, point):
            raise self.trace.error(
                f"semaphore {key.name!r}: {step} {verb} it ({engine.name}, {point.name}), and so "
                f"does {other[2]} ({other[0].name}, {other[1].name})",
                step.line,
                hint="use a semaphore for each engine and point",
            )

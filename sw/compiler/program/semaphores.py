"""Stage `semaphores`: semaphores, and every wait and post, for what dependence analysis found.

A *channel* is a semaphore from one engine and point to one waiting sequencer. Posts on a channel
are numbered in the producer's order; a consumer that needs the n-th takes what is missing to n.
Every wait refers to an instruction earlier in program order, so the program cannot deadlock. Where
posts could pile up beyond a counter's maximum, the producer is made to wait for the consumer; where
no consumer comes for so long, one takes earlier than it needs to.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spec.config import NpuConfig
from spec.fields import field_of
from spec.isa import SYNC_SLOTS, Engine, Opcode, Point, Sync
from sw.compiler.errors import LegalityError
from sw.compiler.program.accesses import WEIGHTS
from sw.compiler.program.dependences import END, NEVER, Channel, Dependences, Need, analyse
from sw.compiler.program.virtual import VirtualInstruction, iterations

Late = tuple[VirtualInstruction, VirtualInstruction, Channel]
"""An instruction, an earlier one that it must wait for too, and on which channel."""

MAX_AMOUNT = field_of(Opcode.LOAD, "wait.amount").maximum
"""Most that a slot takes; what is more takes several slots."""

ROUNDS = 8
"""How often waits against overflow are added before giving up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Instructions in their final order, and the waits and posts of each.

    `semaphores`: of every channel. `dependences`: what the waits are for.
    """

    instructions: Sequence[VirtualInstruction]
    waits: Mapping[VirtualInstruction, list[Sync]]
    posts: Mapping[VirtualInstruction, list[Sync]]
    semaphores: Mapping[Channel, int]
    dependences: Dependences

    def __str__(self) -> str:
        lines = [
            f"semaphore {sem}: {engine.name}.{point.name} -> {waiting}"
            for (engine, point, waiting), sem in self.semaphores.items()
        ]
        for instruction in self.instructions:
            waits = " ".join(
                f"wait(s{w.sem}x{w.amount}@{w.level})" for w in self.waits[instruction]
            )
            posts = " ".join(
                f"post(s{p.sem}x{p.amount}@{p.level})" for p in self.posts[instruction]
            )
            lines.append(f"{instruction.engine.name:6} {instruction.note} {waits} {posts}".rstrip())
        return "\n".join(lines) + "\n"


def assign_semaphores(instructions: Sequence[VirtualInstruction], config: NpuConfig) -> Program:
    """The program of `instructions` with waits and posts.

    `LegalityError` if the configuration has too few semaphores or an instruction too few slots.
    """
    extra: dict[int, list[tuple[VirtualInstruction, Channel]]] = {}
    for _ in range(ROUNDS):
        assignment = _Assignment(analyse(instructions, extra), config)
        late = assignment.run()
        if not late:
            return Program(
                instructions=instructions,
                waits=assignment.waits,
                posts=assignment.posts,
                semaphores=assignment.semaphores,
                dependences=assignment.found,
            )
        for instruction, other, channel in late:
            extra.setdefault(id(instruction), []).append((other, channel))
    raise LegalityError("semaphores overflow however often their producers wait")


class _Assignment:
    """One attempt: numbers posts and waits, and notes instructions whose posts could overflow."""

    def __init__(self, found: Dependences, config: NpuConfig) -> None:
        self.found = found
        self.maximum = (1 << config.sem_bits) - 1
        self.levels = _levels(found)
        self.semaphores = _number(self.levels, config)
        self.bases: dict[Channel, dict[int, int]] = defaultdict(dict)
        self.posted: dict[Channel, int] = defaultdict(int)
        self.taken: dict[Channel, int] = defaultdict(int)
        # Consumers of each channel: numbers, what all up to each have taken, instructions.
        self.takers: dict[Channel, tuple[list[int], list[int], list[VirtualInstruction]]] = (
            defaultdict(lambda: ([], [], []))
        )
        # Producers of each channel: what all up to each have posted, the instructions.
        self.producers: dict[Channel, tuple[list[int], list[VirtualInstruction]]] = defaultdict(
            lambda: ([], [])
        )
        self.last: dict[str, VirtualInstruction] = {}
        self.waits: dict[VirtualInstruction, list[Sync]] = {}
        self.posts: dict[VirtualInstruction, list[Sync]] = {}

    def run(self) -> list[Late]:
        """Set waits and posts; returns what must wait in addition, against overflow."""
        late: list[Late] = []
        for instruction, needs in self.found.needs:
            self.waits[instruction], self.posts[instruction] = [], []
            for channel, wanted in needs.items():
                self._take(instruction, channel, wanted)
            # Waits level by level take more slots than one for everything at the start.
            if len(self.waits[instruction]) > SYNC_SLOTS:
                self.waits[instruction] = _merged(instruction, self.waits[instruction])
                self.found.at_once.update((instruction, channel) for channel in needs)
            for channel, by_instruction in self.levels.items():
                if id(instruction) in by_instruction:
                    late += self._post(instruction, channel, by_instruction[id(instruction)])
            self.last[instruction.engine.name] = instruction
            _check_slots(instruction, self.waits[instruction], self.posts[instruction])
        return late

    def _take(self, instruction: VirtualInstruction, channel: Channel, wanted: list[Need]) -> None:
        totals: dict[tuple[int, int], int] = {}
        for need in wanted:
            base = self.bases[channel][id(need.producer)]
            level = self.levels[channel][id(need.producer)]
            count = iterations(need.producer.record.loop, level)
            done = count if need.producer_iteration == END else int(need.producer_iteration) + 1
            totals[need.level, need.iteration] = base + done
        # Waits at READ and at DONE are the same: both hold back the main sequencer.
        point = Point.WEIGHTS if channel[2] == WEIGHTS else Point.DONE
        amounts_by_level = _amounts(totals, self.taken[channel], instruction)
        if not any(amounts_by_level):
            self.found.at_once.add((instruction, channel))
        for level, amount in amounts_by_level.items():
            self.waits[instruction] += _wait(self.semaphores[channel], point, level, amount)
            self.taken[channel] += amount * iterations(instruction.record.loop, level)
        numbers, amounts, instructions = self.takers[channel]
        numbers.append(self.found.index[id(instruction)])
        amounts.append(self.taken[channel])
        instructions.append(instruction)

    def _post(self, instruction: VirtualInstruction, channel: Channel, level: int) -> list[Late]:
        self.bases[channel][id(instruction)] = self.posted[channel]
        self.posted[channel] += iterations(instruction.record.loop, level)
        totals, producers = self.producers[channel]
        totals.append(self.posted[channel])
        producers.append(instruction)
        sem = self.semaphores[channel]
        self.posts[instruction].append(Sync(sem=sem, level=level, point=channel[1]))
        numbers, amounts, instructions = self.takers[channel]
        # In any timing: what has surely been taken when this post comes.
        surely = bisect_right(numbers, self._known(instruction, channel))
        if self.posted[channel] - (amounts[surely - 1] if surely else 0) <= self.maximum:
            return []
        # The first consumer that takes enough; waiting for it holds the producer back.
        enough = bisect_left(amounts, self.posted[channel] - self.maximum)
        if enough < len(instructions):
            other = instructions[enough]
            point = Point.DONE if other.engine is Engine.LOAD else Point.READ
            posting = WEIGHTS if channel[1] is Point.WEIGHTS else instruction.engine.name
            return [(instruction, other, (other.engine, point, posting))]
        taken = self._take_early(channel)
        if taken is None:
            raise LegalityError(
                f"semaphore {sem} would count beyond {self.maximum} before anything takes from it",
                node=instruction.note,
            )
        return [taken]

    def _take_early(self, channel: Channel) -> Late | None:
        """What the waiting sequencer's last instruction could take already; None if nothing."""
        waiting = "MATRIX" if channel[2] == WEIGHTS else channel[2]
        instruction = self.last.get(waiting)
        if instruction is None:
            return None
        totals, instructions = self.producers[channel]
        numbers, amounts, takers = self.takers[channel]
        # Half of what a counter holds at once, so that this is seldom.
        wanted = bisect_right(totals, self.posted[channel] - self.maximum // 2) - 1
        place = self.found.place
        # Only what comes before it in the program: else it could wait for itself.
        while wanted >= 0 and place[id(instructions[wanted])] > place[id(instruction)]:
            wanted -= 1
        if wanted < 0 or (amounts and totals[wanted] <= amounts[-1]):
            return None
        # As it will be in the next attempt: later posts count from here.
        numbers.append(self.found.index[id(instruction)])
        amounts.append(totals[wanted])
        takers.append(instruction)
        return instruction, instructions[wanted], channel

    def _known(self, instruction: VirtualInstruction, channel: Channel) -> int:
        """Number of the last consumer whose waits are surely over when `instruction` starts.

        The weight sequencer runs ahead of the main one: its posts know its own waits only.
        """
        waiting = channel[2]
        if waiting == instruction.engine.name:
            return self.found.index[id(instruction)] - 1
        weights = waiting == WEIGHTS
        engine = Engine.MATRIX if weights else Engine[waiting]
        source = (engine, Point.WEIGHTS if weights else Point.READ)
        if channel[1] is Point.WEIGHTS:
            known = self.found.weights[id(instruction)].at(0, 0)
        else:
            known = self.found.start[id(instruction)]
        index, iteration = known.get(source, NEVER)
        return index if iteration == END else index - 1


def _levels(found: Dependences) -> dict[Channel, dict[int, int]]:
    """The level at which each needed producer posts, by channel and id of the instruction."""
    levels: dict[Channel, dict[int, int]] = defaultdict(dict)
    for _, needs in found.needs:
        for channel, wanted in needs.items():
            for need in wanted:
                old = levels[channel].get(id(need.producer), 0)
                # One slot posts for all consumers of a channel: at the finest level that one needs.
                levels[channel][id(need.producer)] = max(old, need.producer_level)
    return levels


def _amounts(
    needed: dict[tuple[int, int], int], before: int, instruction: VirtualInstruction
) -> dict[int, int]:
    """Wait amounts by level that fetch each iteration's posts, never more than its last needs.

    `needed`: total posts wanted at (level, iteration). One level besides 0 can be used; where the
    amounts are not the same for every iteration, everything is taken at level 0.
    """
    top = max(needed.values()) - before
    levels = {level for level, _ in needed if level}
    if len(levels) == 1:
        (level,) = levels
        count = iterations(instruction.record.loop, level)
        at_start = max((n for (lv, _), n in needed.items() if lv == 0), default=before)
        totals, running = [], at_start
        for i in range(count):
            running = max(running, needed.get((level, i), 0))
            totals.append(running - before)
        steps = {b - a for a, b in pairwise(totals)}
        # A wait slot takes the same amount in every iteration.
        if len(steps) == 1:
            (step,) = steps
            if step > 0 and totals[0] >= step:
                return {0: totals[0] - step, level: step}
    return {0: top}


def _wait(sem: int, point: Point, level: int, amount: int) -> list[Sync]:
    """The slots that take so much: one holds at most MAX_AMOUNT."""
    parts = [min(MAX_AMOUNT, amount - at) for at in range(0, amount, MAX_AMOUNT)]
    return [Sync(sem=sem, level=level, point=point, amount=part) for part in parts]


def _merged(instruction: VirtualInstruction, waits: Sequence[Sync]) -> list[Sync]:
    """One slot per semaphore: everything is waited for at the start."""
    totals: dict[tuple[int, Point], int] = defaultdict(int)
    for slot in waits:
        repeat = iterations(instruction.record.loop, slot.level)
        totals[slot.sem, slot.point] += slot.amount * repeat
    return [
        slot for (sem, point), amount in totals.items() for slot in _wait(sem, point, 0, amount)
    ]


def _number(levels: dict[Channel, dict[int, int]], config: NpuConfig) -> dict[Channel, int]:
    # Not by which need came first: a channel keeps its number when other needs change.
    channels = sorted(levels, key=lambda c: (c[0], c[1], c[2]))
    if len(channels) > config.semaphores:
        raise LegalityError(
            f"{len(channels)} channels need a semaphore each, the configuration has "
            f"{config.semaphores}"
        )
    return {channel: i for i, channel in enumerate(channels)}


def _check_slots(
    instruction: VirtualInstruction, waits: Sequence[Sync], posts: Sequence[Sync]
) -> None:
    for kind, slots in (("waits", waits), ("posts", posts)):
        if len(slots) > SYNC_SLOTS:
            raise LegalityError(
                f"{len(slots)} {kind}, an instruction has {SYNC_SLOTS} slots", node=instruction.note
            )

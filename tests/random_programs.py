"""Random programs on all engines at once, with the semaphores that they need and no others.

Which accesses must be ordered is left to the golden model: it names a race, a semaphore goes
between those two instructions, and so on until it accepts the program. Levels of waits and posts
are random as far as they still order what must be.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from golden_programs import (
    image,
    random_convolution,
    random_depthwise,
    random_dma,
    random_fused,
    random_indexed,
    random_matrix,
    random_operator,
    random_vector,
)
from golden_reference import Reference, randomize, walk

from golden_model import HazardError, Machine, MachineFault
from spec import Image, Instruction, NpuConfig, Opcode
from spec.isa import SYNC_SLOTS, DType, Engine, Point, Space, Sync
from spec.optional import lacking
from spec.program import REGION_CONST, REGION_OUTPUT, REGION_TEMP

MEMORY_BYTES = 2048
WINDOW_KIB = 16
NOISE = 26  # semaphores from here on are posted at random, and nobody waits for them
MOST_AMOUNT = 127
MOST_POSTS = 200  # of one semaphore in one program; eight bits hold 255
Values = dict[str, Any]
Make = Callable[[np.random.Generator, NpuConfig], Instruction]
_RACE = re.compile(
    r"^race: (\w+)( \(weights\))? at instruction (\d+) `.*` (?:reads|writes) (.+) \d+, and "
    r"(\w+)( \(weights\))? at instruction (\d+) `.*` (reads|writes) it; "
)
_IN_PLACE = re.compile("earlier step of the same instruction")


class Channel(NamedTuple):
    """One semaphore: who posts it, at which point, and which sequencer waits for it."""

    poster: Engine
    point: Point
    waiter: Engine
    weights: bool


class Unsynchronisable(Exception):
    """Instruction `item` needs more slots than there are."""

    def __init__(self, item: int) -> None:
        super().__init__(item)
        self.item = item


def window(config: NpuConfig) -> NpuConfig:
    """`config` with memories so small that random accesses meet each other."""
    return dataclasses.replace(
        config,
        spad_kib=min(config.spad_kib, max(WINDOW_KIB, config.banks * config.word_bytes // 1024)),
        acc_kib=min(config.acc_kib, config.cols),
        param_entries=min(config.param_entries, 64),
    )


class Program:
    """Setup, random instructions, and the transfers that show everything they changed."""

    def __init__(
        self, rng: np.random.Generator, config: NpuConfig, many: int, more: Sequence[Make] = ()
    ) -> None:
        self.rng, self.config, self.area, self.more = rng, config, window(config), more
        self.spad_at = int(rng.integers(0, config.spad_bytes - self.area.spad_bytes + 1))
        self.acc_at = int(rng.integers(0, config.acc_vectors - self.area.acc_vectors + 1))
        self.items: list[tuple[Opcode, Values]] = []
        self.needs: set[tuple[int, int, Channel]] = set()
        self.wait_level: dict[tuple[int, Channel], int] = {}
        self.post_level: dict[tuple[int, Channel], int] = {}
        self.parts = self._contents()
        setup, finish = self._setup(), self._finish()
        self.items = [*setup, *(self._random() for _ in range(many)), *finish]
        self.fixed = {*range(len(setup)), *range(len(setup) + many, len(self.items))}

    # What happens ---------------------------------------------------------------------------

    def _contents(self) -> dict[str, np.ndarray]:
        reference = Reference(self.area)
        randomize(reference, self.rng)
        parts = {"acc": np.array(reference.acc, np.int32).view(np.uint8).reshape(-1)}
        for name in ("spad", "param", "table"):
            parts[name] = np.frombuffer(bytes(getattr(reference, name)), np.uint8)
        parts["more"] = self.rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8)
        return parts

    def _at(self, name: str) -> int:
        """Offset of a part among the constants, each at a multiple of 64 bytes."""
        at = 0
        for part, content in self.parts.items():
            if part == name:
                return at
            at += -(-content.size // 64) * 64
        raise KeyError(name)

    def _through(self, loop: Values, **more: int) -> tuple[Opcode, Values]:
        """A VECTOR instruction that copies accumulator vectors."""
        loop = {"count": self.area.acc_vectors, **loop}
        values = {"a_type": DType.I32, "o_type": DType.I32, "lanes": self.config.cols}
        bounds = {"o_min": -(1 << 31), "o_max": (1 << 31) - 1}
        return Opcode.VECTOR, {**values, **bounds, **more, "loop": [loop]}

    def _setup(self) -> list[tuple[Opcode, Values]]:
        row, spad = 4 * self.config.cols, self.spad_at
        sizes = {name: content.size for name, content in self.parts.items()}
        out: list[tuple[Opcode, Values]] = [
            (Opcode.LOAD, {"mem_base": self._at("acc"), "run": sizes["acc"]}),
            self._through({"a": row, "o": 1}, o_space=Space.ACC, o_base=self.acc_at),
            (
                Opcode.LOAD,
                {"mem_base": self._at("spad"), "run": sizes["spad"], "chip_base": spad},
            ),
        ]
        for name, space in (("param", Space.PARAM), ("table", Space.TABLE)):
            values = {"mem_base": self._at(name), "run": sizes[name], "space": space}
            out.append((Opcode.LOAD, values))
        for region in (REGION_OUTPUT, REGION_TEMP):
            out.append((Opcode.STORE, {"region": region, "chip_base": spad, "run": MEMORY_BYTES}))
        return out

    def _finish(self) -> list[tuple[Opcode, Values]]:
        row, acc, spad = 4 * self.config.cols, self.parts["acc"].size, self.parts["spad"].size
        at = MEMORY_BYTES
        return [
            (
                Opcode.STORE,
                {"region": REGION_OUTPUT, "mem_base": at, "chip_base": self.spad_at, "run": spad},
            ),
            self._through({"a": 1, "o": row}, a_space=Space.ACC, a_base=self.acc_at),
            (Opcode.STORE, {"region": REGION_OUTPUT, "mem_base": at + spad, "run": acc}),
            (Opcode.LOAD, {"region": REGION_TEMP, "run": MEMORY_BYTES}),
            (
                Opcode.STORE,
                {"region": REGION_OUTPUT, "mem_base": at + spad + acc, "run": MEMORY_BYTES},
            ),
        ]

    def _random(self) -> tuple[Opcode, Values]:
        transfers = (random_dma, random_dma, random_indexed, random_indexed)
        kinds = (*(partial(self._transfer, make) for make in transfers), self._parameters)
        compute = [random_matrix, random_convolution, random_vector, random_fused]
        compute += [random_operator, random_operator, random_operator]
        if self.config.depthwise:
            compute += [random_depthwise, random_depthwise]
        compute = (*compute, *self.more)
        while True:
            choice = int(self.rng.integers(len(kinds) + len(compute)))
            if choice < len(kinds):
                opcode, values = kinds[choice]()
            else:
                made = compute[choice - len(kinds)](self.rng, self.area)
                opcode, values = made.opcode, made.values
            fields = Instruction(opcode, values).values
            if not any(function.uses(fields) for function in lacking(self.config, opcode)):
                break
        return opcode, {name: self._moved(values, name) for name in values}

    def _moved(self, values: Values, name: str) -> Any:
        """Scratchpad and accumulator addresses move to the window."""
        space = {"wgt_base": Space.SPAD, "act_base": Space.SPAD, "b_base": Space.SPAD}
        space |= {
            "index_base": Space.SPAD,
            "acc_base": Space.ACC,
            "chip_base": values.get("space", Space.SPAD),
        }
        space |= {f"{operand}_base": values.get(f"{operand}_space") for operand in "ao"}
        shift = {Space.SPAD: self.spad_at, Space.ACC: self.acc_at}
        return values[name] + shift.get(space[name], 0) if name in space else values[name]

    def _transfer(self, make: Callable[..., Instruction]) -> tuple[Opcode, Values]:
        made = make(self.rng, self.area, MEMORY_BYTES)
        values = dict(made.values)
        if made.opcode is Opcode.LOAD and values["region"] == REGION_CONST:
            values["mem_base"] += self._at("more")
        if made.opcode is Opcode.LOAD and values["space"] == Space.PARAM:
            # Random bytes would be illegal shifts.
            values |= {"fill": 1, "fill_value": int(self.rng.integers(2, 63))}
        return made.opcode, values

    def _parameters(self) -> tuple[Opcode, Values]:
        """Some bytes of some entries, to the same places in other entries."""
        entry, many = self.config.param_entry_bytes, self.area.param_entries
        count = int(self.rng.integers(1, 3))
        first, to = (int(n) for n in self.rng.integers(0, many - count + 1, 2))
        offset = int(self.rng.integers(0, entry))
        most = entry * (many - max(first, to) - count + 1) - offset
        values = {
            "region": REGION_CONST,
            "mem_base": self._at("param") + first * entry + offset,
            "chip_base": to * entry + offset,
            "run": min(int(self.rng.integers(1, most + 1)), 3 * entry),
            "space": Space.PARAM,
            "loop": [{"count": count, "mem": entry, "chip": entry}],
        }
        return Opcode.LOAD, Instruction(Opcode.LOAD, values).values

    # What must be ordered -------------------------------------------------------------------

    def image(self) -> Image:
        """The program with the semaphores that are known to be needed."""
        size = {name: content.size for name, content in self.parts.items()}
        constants = np.zeros(self._at("more") + MEMORY_BYTES, np.uint8)
        for name, content in self.parts.items():
            constants[self._at(name) : self._at(name) + size[name]] = content
        total = 2 * MEMORY_BYTES + size["spad"] + size["acc"]
        return image(
            self.config,
            [Instruction(op, values) for op, values in self._synchronised()],
            [("x", self.parts["more"][::-1])],
            [("out", (total,), "uint8")],
            constants=constants,
            temp_bytes=MEMORY_BYTES,
        )

    def _fires(self, item: int, level: int) -> int:
        return sum(1 for _ in walk(self.items[item][1].get("loop", [])[:level]))

    def _levels(self, item: int, weights: bool) -> int:
        values = self.items[item][1]
        return values["fold_loops"] if weights else len(values.get("loop", ()))

    def _random_level(self, item: int, weights: bool) -> int:
        return int(self.rng.integers(0, self._levels(item, weights) + 1))

    def _synchronised(self) -> list[tuple[Opcode, Values]]:
        out = [(op, {**values, "wait": [], "post": []}) for op, values in self.items]
        channels = sorted({channel for *_, channel in self.needs})
        if len(channels) > NOISE:
            raise Unsynchronisable(self.some())
        for semaphore, channel in enumerate(channels):
            self._wire(out, semaphore, channel)
        for item, (_, values) in enumerate(out):
            for kind in ("wait", "post"):
                if len(values[kind]) > SYNC_SLOTS:
                    raise Unsynchronisable(item)
                self.rng.shuffle(values[kind])
            if item not in self.fixed:
                self._noise(item, out)
        return out

    def _some(self) -> int:
        return int(self.rng.choice([i for i in range(len(self.items)) if i not in self.fixed]))

    def _wire(self, out: list[tuple[Opcode, Values]], semaphore: int, channel: Channel) -> None:
        pairs = [(i, j) for i, j, c in self.needs if c == channel]
        posted: dict[int, int] = {}
        total = 0
        for i in sorted({i for i, _ in pairs}):
            key = (i, channel)
            if key not in self.post_level:
                self.post_level[key] = self._random_level(i, channel.point is Point.WEIGHTS)
            if self._fires(i, self.post_level[key]) > 20 or total > MOST_POSTS // 2:
                self.post_level[key] = 0
            level = self.post_level[key]
            total += self._fires(i, level)
            posted[i] = total
            out[i][1]["post"].append(Sync(sem=semaphore, level=level, point=channel.point))
        taken = 0
        for j in sorted({j for _, j in pairs}):
            amount = max(posted[i] for i, k in pairs if k == j) - taken
            if amount <= 0:
                continue
            key = (j, channel)
            if key not in self.wait_level:
                self.wait_level[key] = self._random_level(j, channel.weights)
            fires = self._fires(j, self.wait_level[key])
            if amount % fires:
                self.wait_level[key], fires = 0, 1
            if amount // fires > MOST_AMOUNT:
                raise Unsynchronisable(j)
            taken += amount
            point = Point.WEIGHTS if channel.weights else Point(int(self.rng.integers(0, 2)))
            if out[j][0] is Opcode.LOAD:
                point = Point.DONE
            level, amount = self.wait_level[key], amount // fires
            out[j][1]["wait"].append(Sync(sem=semaphore, level=level, point=point, amount=amount))

    def _noise(self, item: int, out: list[tuple[Opcode, Values]]) -> None:
        """A post that nobody waits for."""
        op, values = out[item]
        points = {Opcode.LOAD: 1, Opcode.MATRIX: 3}.get(op, 2)
        semaphore = int(self.rng.integers(NOISE, 32))
        point = Point(int(self.rng.integers(0, points)))
        level = self._random_level(item, point is Point.WEIGHTS)
        used = sum(
            self._fires(i, post.level)
            for i, (_, other) in enumerate(out)
            for post in other["post"]
            if post.sem == semaphore
        )
        room = len(values["post"]) < SYNC_SLOTS
        if room and used + self._fires(item, level) <= MOST_POSTS:
            values["post"].append(Sync(sem=semaphore, level=level, point=point))

    def drop(self, item: int) -> None:
        """Leave out random instruction `item`."""
        assert item not in self.fixed, f"instruction {item} is not one of the random ones"
        del self.items[item]

        def moved(i: int) -> int:
            return i - (i > item)

        self.fixed = {moved(i) for i in self.fixed}
        self.needs = {(moved(i), moved(j), c) for i, j, c in self.needs if item not in (i, j)}
        for table in (self.wait_level, self.post_level):
            kept = {(moved(i), c): level for (i, c), level in table.items() if i != item}
            table.clear()
            table.update(kept)

    def order(self, message: str) -> None:
        """Add what keeps the two accesses of a race in order."""
        found = _RACE.match(message)
        assert found, message
        second, weights, j, space, first, first_weights, i, access = found.groups()
        point = Point.WEIGHTS if first_weights else Point.READ if access == "reads" else Point.DONE
        poster, waiter = Engine[first.upper()], Engine[second.upper()]
        if poster is Engine.LOAD or space in ("param", "table"):
            point = Point.DONE
        channel = Channel(poster, point, waiter, bool(weights))
        # BEGIN is instruction 0.
        need = (int(i) - 1, int(j) - 1, channel)
        if need in self.needs:
            assert self.wait_level.get((need[1], channel), 0), f"ordered already: {message}"
            self.wait_level[need[1], channel] = 0
        self.needs.add(need)


def random_program(
    seed: int, config: NpuConfig, many: int, more: Sequence[Make] = ()
) -> tuple[Image, dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """An image that the golden model accepts, its inputs, its outputs, instructions in it.

    many: random instructions to begin with; those that cannot be are left out; more: makers of
    further kinds of instructions.
    """
    rng = np.random.default_rng(seed)
    program, machine = Program(rng, config, many, more), Machine(config)
    inputs = {"x": program.parts["more"][::-1]}
    while True:
        try:
            made = program.image()
            outputs = machine.run(made, inputs)
            return made, inputs, outputs, len(program.items)
        except Unsynchronisable as error:
            program.drop(error.item if error.item not in program.fixed else program.some())
        except HazardError as error:
            if str(error).startswith("race: ") and not _IN_PLACE.search(str(error)):
                program.order(str(error))
            else:
                program.drop(error.index - 1)
        except MachineFault as error:
            program.drop(error.index - 1)

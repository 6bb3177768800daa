"""Random pipelines of one instruction per engine: rotating buffers, slices handed on at any level.

Tile t of T: x[t] (M x K) times w[t] (K x N), scaled and clamped to int8. LOAD brings w and x of a
tile, MATRIX, VECTOR and STORE follow as closely as the levels of their semaphores let them.
"""

import itertools
from typing import Any

import numpy as np
from golden_programs import image

from spec import Image, Instruction, NpuConfig, Opcode
from spec.isa import DType, Point, Scale, Space, Sync
from spec.numerics import apply_scale

FULL_A, FULL_W, FREE_A, FREE_W, FULL_ACC, FREE_ACC, FULL_O, FREE_O = range(8)
TILE = 2  # a wait or post at this level acts once a tile: the two outer loops count tiles
Values = dict[str, Any]


class Pipeline:
    """Sizes, the way slices are handed on, and the data; `expected` is plain NumPy."""

    def __init__(self, rng: np.random.Generator, config: NpuConfig) -> None:
        def pick(low: int, high: int) -> int:
            return int(rng.integers(low, high + 1))

        self.rng, self.config = rng, config
        self.buffers, self.rounds = pick(1, 3), pick(1, 4)
        self.tiles = self.buffers * self.rounds
        self.k_blocks, self.n_blocks, self.m = pick(1, 3), pick(1, 2), pick(1, 9)
        self.rows_last, self.cols_last = pick(1, config.rows), pick(1, config.cols)
        self.k = (self.k_blocks - 1) * config.rows + self.rows_last
        self.n = (self.n_blocks - 1) * config.cols + self.cols_last
        self.slices = pick(1, 5)
        used = self.k * self.n + self.m * self.k
        self.run = -(-used // self.slices) + pick(0, 3)
        self.stage = self.slices * self.run
        self.stage_at = pick(0, 63)
        self.out_at = self.stage_at + self.buffers * self.stage + pick(0, 63)
        self.by_rows = bool(pick(0, 1))
        self.unsigned = [bool(pick(0, 1)) for _ in range(2)]
        self.zero_points = [pick(0, 255) if u else pick(-128, 127) for u in self.unsigned]
        self.multiplier, self.shift, self.o_zp = (
            pick(1 << 30, (1 << 31) - 1),
            pick(34, 46),
            pick(-9, 9),
        )
        self.data = rng.integers(0, 256, (self.tiles, self.stage), dtype=np.uint8)
        self.free_point = Point(pick(0, 1))
        # Levels of posts and waits, per tile or finer.
        self.fine = {name: bool(pick(0, 1)) for name in ("load", "acc", "free_acc", "out", "free")}

    def fits(self) -> bool:
        return self.out_at + self.buffers * self.m * self.n <= self.config.spad_bytes

    def expected(self) -> np.ndarray:
        w, x = np.split(self.data[:, : self.k * (self.n + self.m)], [self.k * self.n], axis=1)
        both = []
        for part, is_unsigned, zero in zip((x, w), self.unsigned, self.zero_points):
            both.append((part if is_unsigned else part.view(np.int8)).astype(np.int64) - zero)
        x = both[0].reshape(self.tiles, self.m, self.k)
        sums = x @ both[1].reshape(self.tiles, self.k, self.n)
        scaled = [int(apply_scale(int(s), self.multiplier, self.shift)) for s in sums.reshape(-1)]
        clamped = np.clip(np.array(scaled) + self.o_zp, -128, 127)
        return clamped.reshape(sums.shape).astype(np.int8)

    def image(self) -> Image:
        """The first tile of every buffer needs no free buffer: instructions of their own."""
        makers = (self._load, self._matrix, self._vector, self._store)
        parts = [(0, 1)] + ([(1, self.rounds - 1)] if self.rounds > 1 else [])
        queues = [[maker(first, count) for first, count in parts] for maker in makers]
        body: list[Instruction] = []
        while any(queues):
            # Any interleaving is right: an engine's own order is all that it sees.
            queue = queues[self.rng.choice([i for i, q in enumerate(queues) if q])]
            body.append(queue.pop(0))
        outputs = [("y", (self.tiles, self.m, self.n), "int8")]
        return image(self.config, body, [("x", self.data)], outputs)

    def _outer(self, count: int, per_round: Values, per_buffer: Values) -> list[Values]:
        return [{"count": count, **per_round}, {"count": self.buffers, **per_buffer}]

    def _free(self, first: int, *waits: Sync) -> list[Sync]:
        return list(waits) if first else []

    def _load(self, first: int, count: int) -> Instruction:
        size, fine = self.stage, self.fine["load"]
        post = {"level": TILE + fine, "amount": 1 if fine else self.slices}
        values = {
            "region": 1,
            "mem_base": first * self.buffers * size,
            "chip_base": self.stage_at,
            "run": self.run,
            "loop": [
                *self._outer(count, {"mem": self.buffers * size}, {"mem": size, "chip": size}),
                {"count": self.slices, "mem": self.run, "chip": self.run},
            ],
            "wait": self._free(first, Sync(sem=FREE_A, level=TILE), Sync(sem=FREE_W, level=TILE)),
            "post": [Sync(sem=FULL_A, **post), Sync(sem=FULL_W, **post)],
        }
        return Instruction(Opcode.LOAD, values)

    def _matrix(self, first: int, count: int) -> Instruction:
        rows, cols, m, size = self.config.rows, self.config.cols, self.m, self.stage
        ready = {"level": TILE, "amount": self.slices}
        blocks, free, fine = self.n_blocks, self.fine["free_acc"], self.fine["acc"]
        finer = free and not self.by_rows
        values = {
            "act_base": self.stage_at + self.k * self.n,
            "wgt_base": self.stage_at,
            "wgt_row": self.n,
            "act_unsigned": self.unsigned[0],
            "wgt_unsigned": self.unsigned[1],
            "act_zp": self.zero_points[0],
            "wgt_zp": self.zero_points[1],
            "fold_loops": 4,
            "k_loops": 1 << 3,
            "row_loop": 3,
            "rows": rows,
            "rows_last": self.rows_last,
            "col_loop": 2,
            "cols": cols,
            "cols_last": self.cols_last,
            "loop": [
                *self._outer(count, {}, {"act": size, "wgt": size, "acc": blocks * m}),
                {"count": blocks, "wgt": cols, "acc": m},
                {"count": self.k_blocks, "act": rows, "wgt": rows * self.n},
                {"count": m, "act": self.k, "acc": 1},
            ],
            "wait": [
                Sync(sem=FULL_A, **ready),
                Sync(sem=FULL_W, point=Point.WEIGHTS, **ready),
                *self._free(
                    first,
                    Sync(sem=FREE_ACC, level=TILE + finer, amount=1 if finer else blocks),
                ),
            ],
            "post": [
                Sync(sem=FREE_A, level=TILE, point=Point.READ),
                Sync(sem=FREE_W, level=TILE, point=Point.WEIGHTS),
                Sync(sem=FULL_ACC, level=TILE + fine, amount=1 if fine else blocks),
            ],
        }
        return Instruction(Opcode.MATRIX, values)

    def _vector(self, first: int, count: int) -> Instruction:
        cols, m, n, blocks = self.config.cols, self.m, self.n, self.n_blocks
        columns = {"count": blocks, "a": m, "o": cols}
        lines = {"count": m, "a": 1, "o": n}
        per_block = not self.by_rows
        ready, free = per_block and self.fine["acc"], per_block and self.fine["free_acc"]
        out = self.by_rows and self.fine["out"]
        values = {
            "a_space": Space.ACC,
            "a_type": DType.I32,
            "o_base": self.out_at,
            "o_scale": Scale.TENSOR,
            "o_mult": self.multiplier,
            "o_shift": self.shift,
            "o_zp": self.o_zp,
            "o_min": -128,
            "o_max": 127,
            "lane_loop": 3 if self.by_rows else 2,
            "lanes": cols,
            "lanes_last": self.cols_last,
            "loop": [
                *self._outer(count, {}, {"a": blocks * m, "o": m * n}),
                *((lines, columns) if self.by_rows else (columns, lines)),
            ],
            "wait": [
                Sync(sem=FULL_ACC, level=TILE + ready, amount=1 if ready else blocks),
                *self._free(first, Sync(sem=FREE_O, level=TILE, amount=m)),
            ],
            "post": [
                Sync(
                    sem=FREE_ACC,
                    level=TILE + free,
                    point=Point.READ,
                    amount=1 if free else blocks,
                ),
                Sync(sem=FULL_O, level=TILE + out, amount=1 if out else m),
            ],
        }
        return Instruction(Opcode.VECTOR, values)

    def _store(self, first: int, count: int) -> Instruction:
        m, n = self.m, self.n
        ready, free = self.fine["out"], self.fine["free"]
        values = {
            "region": 2,
            "mem_base": first * self.buffers * m * n,
            "chip_base": self.out_at,
            "run": n,
            "loop": [
                *self._outer(count, {"mem": self.buffers * m * n}, {"mem": m * n, "chip": m * n}),
                {"count": m, "mem": n, "chip": n},
            ],
            "wait": [Sync(sem=FULL_O, level=TILE + ready, amount=1 if ready else m)],
            "post": [
                Sync(
                    sem=FREE_O,
                    level=TILE + free,
                    point=self.free_point,
                    amount=1 if free else m,
                )
            ],
        }
        return Instruction(Opcode.STORE, values)


def random_pipeline(seed: int, config: NpuConfig) -> tuple[Pipeline, Image]:
    """The first one from this seed on whose buffers fit in the scratchpad."""
    for attempt in itertools.count():
        pipeline = Pipeline(np.random.default_rng([seed, attempt]), config)
        if pipeline.fits():
            return pipeline, pipeline.image()
    raise AssertionError("unreachable")

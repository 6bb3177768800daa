"""DEPTHWISE: whole layers against a plain convolution, its faults, its hazards."""

import dataclasses
import itertools
import re
from typing import Any

import numpy as np
import pytest
from golden_programs import ROOMY, by_address, image, random_depthwise, random_fused
from random_programs import random_program

from golden_model import HazardError, Machine, MachineFault, UndefinedError
from spec import Instruction, NpuConfig, Opcode, preset
from spec.isa import DType, Point, Space, Sync
from spec.memmap import Fault

LOAD, STORE, VECTOR, DEPTHWISE = Opcode.LOAD, Opcode.STORE, Opcode.VECTOR, Opcode.DEPTHWISE
READ = Point.READ
Body = list[tuple[Opcode, dict[str, Any]]]


@pytest.fixture(autouse=True, params=["strided", "by address"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are executed and checked by strided views, or by addresses."""
    if request.param == "by address":
        by_address(monkeypatch)


# Whole layers ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Layer:
    """A depthwise convolution, NHWC; pads: top, bottom, left, right."""

    height: int
    width: int
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    unsigned: tuple[int, int] = (0, 0)
    zero_points: tuple[int, int] = (0, 0)
    taps: int = 3

    @property
    def output(self) -> tuple[int, int]:
        top, bottom, left, right = self.pads
        return (
            (self.height + top + bottom - self.kernel[0]) // self.stride[0] + 1,
            (self.width + left + right - self.kernel[1]) // self.stride[1] + 1,
        )

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(7)
        types = [np.uint8 if u else np.int8 for u in self.unsigned]
        x = rng.integers(0, 256, (self.height, self.width, self.channels), dtype=np.uint8)
        w = rng.integers(0, 256, (*self.kernel, self.channels), dtype=np.uint8)
        return x.view(types[0]), w.view(types[1])

    def expected(self) -> np.ndarray:
        """[height, width, channels] of the output: sums over windows of the padded input."""
        (x, w), (zx, zw) = self.data(), self.zero_points
        top, bottom, left, right = self.pads
        padded = np.pad(x.astype(int) - zx, ((top, bottom), (left, right), (0, 0)))
        out = np.zeros((*self.output, self.channels), int)
        for i, j in itertools.product(*map(range, self.output)):
            y, x0 = i * self.stride[0], j * self.stride[1]
            window = padded[y : y + self.kernel[0], x0 : x0 + self.kernel[1]]
            out[i, j] = (window * (w.astype(int) - zw)).sum(axis=(0, 1))
        return out

    def instructions(self, act: int, wgt: int, cols: int) -> list[dict[str, Any]]:
        """Kernels wider than `taps`, or strides wider than the kernel, take several that add up."""
        height, width = self.output
        row = self.width * self.channels
        blocks, rest = divmod(self.channels - 1, cols)
        narrow = self.stride[1] > min(self.kernel[1], self.taps)
        step = 1 if narrow else self.taps
        out = []
        for first in range(0, self.kernel[1], step):
            taps = min(step, self.kernel[1] - first)
            # Outputs at every column of a coarser grid, where a stride reaches beyond the kernel.
            grid = self.stride[1] if narrow or self.stride[1] > taps else 1
            if grid > 1 and taps > 1:
                raise NotImplementedError("choose taps that divide the kernel")
            out.append(
                {
                    "act_base": act + first * self.channels - self._corner(row),
                    "act_row": row,
                    "act_col": grid * self.channels,
                    "wgt_base": wgt + first * self.channels,
                    "wgt_row": self.kernel[1] * self.channels,
                    "wgt_col": self.channels,
                    "acc_col": 1,
                    "y0": -self.pads[0],
                    "x0": first - self.pads[2],
                    "row_step": 1,
                    "col_step": grid,
                    "height": self.height,
                    "width": self.width,
                    "act_zp": self.zero_points[0],
                    "wgt_zp": self.zero_points[1],
                    "act_unsigned": self.unsigned[0],
                    "wgt_unsigned": self.unsigned[1],
                    "kernel_rows": self.kernel[0],
                    "kernel_cols": taps,
                    "stride": 1 if grid > 1 else self.stride[1],
                    "outputs": width,
                    "accumulate": int(first > 0),
                    "fold_loops": 1,
                    "lane_loop": 0,
                    "lanes": cols,
                    "lanes_last": rest + 1,
                    "loop": [
                        {"count": blocks + 1, "act": cols, "wgt": cols, "acc": height * width},
                        {
                            "count": height,
                            "act": self.stride[0] * row,
                            "dy": self.stride[0],
                            "acc": width,
                        },
                    ],
                }
            )
        return out

    def _corner(self, row: int) -> int:
        return self.pads[0] * row + self.pads[2] * self.channels

    def run(self, check: bool) -> np.ndarray:
        config = dataclasses.replace(ROOMY, taps=self.taps)
        x, w = self.data()
        act, wgt, out = 1000, 0, 8192
        height, width = self.output
        blocks = -(-self.channels // config.cols)
        steps = self.instructions(act, wgt, config.cols)
        ready = [Sync(sem=0, amount=2)]
        body: Body = [
            (LOAD, {"region": 0, "chip_base": wgt, "run": w.size, "post": [Sync(sem=0)]}),
            (LOAD, {"region": 1, "chip_base": act, "run": x.size, "post": [Sync(sem=0)]}),
            *((DEPTHWISE, {**v, "wait": ready if not i else []}) for i, v in enumerate(steps)),
        ]
        body[-1][1]["post"] = [Sync(sem=1)]
        copy = {
            "a_space": Space.ACC,
            "a_type": DType.I32,
            "o_type": DType.I32,
            "o_base": out,
            "o_min": -(1 << 31),
            "o_max": (1 << 31) - 1,
            "lane_loop": 0,
            "lanes": config.cols,
            "lanes_last": self.channels - (blocks - 1) * config.cols,
            "loop": [
                {"count": blocks, "a": height * width, "o": 4 * config.cols},
                {"count": height * width, "a": 1, "o": 4 * self.channels},
            ],
        }
        size = 4 * height * width * self.channels
        body += [
            (VECTOR, {**copy, "wait": [Sync(sem=1)], "post": [Sync(sem=2)]}),
            (STORE, {"region": 2, "chip_base": out, "run": size, "wait": [Sync(sem=2)]}),
        ]
        program = image(
            config,
            [Instruction(op, values) for op, values in body],
            [("x", x)],
            [("y", (height, width, self.channels), "int32")],
            constants=w.reshape(-1).view(np.uint8),
        )
        return Machine(config).run(program, {"x": x}, check=check)["y"]


LAYERS = [
    Layer(5, 7, 6, (3, 3), pads=(1, 1, 1, 1), zero_points=(-3, 0)),
    Layer(6, 9, 5, (3, 3), (2, 2), pads=(0, 1, 0, 1), unsigned=(1, 0), zero_points=(77, 5)),
    Layer(5, 6, 9, (5, 5), pads=(2, 2, 2, 2), zero_points=(128, -4), taps=5),
    Layer(4, 11, 4, (2, 7), pads=(1, 0, 3, 3), taps=3),
    Layer(8, 8, 3, (8, 8), pads=(3, 4, 3, 4), unsigned=(0, 1), zero_points=(0, 255), taps=8),
    Layer(7, 9, 4, (3, 3), (3, 3), pads=(0, 1, 2, 1), taps=3),
    Layer(7, 9, 4, (1, 1), (2, 3), taps=1),
    Layer(9, 5, 2, (4, 1), (2, 1), pads=(3, 2, 0, 0), taps=4),
    Layer(5, 13, 4, (3, 2), (1, 4), pads=(1, 1, 3, 1), zero_points=(9, 0), taps=6),
    Layer(10, 1, 7, (3, 1), pads=(2, 2, 0, 0), taps=2),
]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_layers_equal_a_plain_convolution(layer: Layer, check: bool) -> None:
    np.testing.assert_array_equal(layer.run(check), layer.expected())


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_on_all_five_engines_are_the_same_without_checks(seed: int) -> None:
    more = [random_depthwise] * 3 + [random_fused]
    config = preset("tiny")
    made, inputs, want, _ = random_program(seed, config, many=10, more=more)
    got = Machine(config).run(made, inputs, check=False)["out"]
    np.testing.assert_array_equal(got, want["out"])


# Faults ------------------------------------------------------------------------------------------


def run_alone(values: dict[str, Any], config: NpuConfig = ROOMY) -> None:
    fill = Instruction(LOAD, {"fill": 1, "run": config.spad_bytes, "post": [Sync(sem=0)]})
    made = Instruction(DEPTHWISE, {"wait": [Sync(sem=0)], **values})
    Machine(config).run(image(config, [fill, made]), {})


LAST = ROOMY.spad_bytes - 1


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"act_base": LAST, "lanes": 2}, "spad 16383…16384 lies outside"),
        ({"act_base": LAST - 1, "act_col": 1, "outputs": 3, "acc_col": 1}, "spad 16384…16384"),
        ({"act_base": 3, "act_row": -2, "kernel_rows": 3}, "spad 16777215…16777215"),
        ({"wgt_base": LAST, "lanes": 2}, "spad 16383…16384"),
        ({"wgt_base": 1, "wgt_col": -2, "kernel_cols": 2}, "spad 16777215…16777215"),
        ({"acc_base": 255, "acc_col": 1, "outputs": 2}, "acc 256…256"),
        ({"acc_base": 0, "acc_col": -1, "outputs": 2}, "acc 65535…65535"),
        ({"act_base": LAST, "lanes_last": 2, "lane_loop": 0, "fold_loops": 1}, "spad 16383…16384"),
    ],
)
def test_accesses_outside_the_chips_memories_fault(values: dict[str, Any], text: str) -> None:
    with pytest.raises(MachineFault, match=re.escape(text)) as caught:
        run_alone({"width": 8, **values})
    found = (caught.value.cause, caught.value.engine, caught.value.index)
    assert found == (Fault.CHIP_ADDRESS, "depthwise", 2)


def test_the_last_bytes_of_the_scratchpad_are_usable() -> None:
    run_alone({"act_base": LAST - 3, "lanes": 4, "wgt_base": LAST - 3})


def test_addresses_outside_the_input_may_lie_anywhere() -> None:
    run_alone({"act_base": 1 << 20, "y0": -1})
    run_alone({"act_base": LAST, "act_col": 1, "outputs": 9, "acc_col": 1, "col_step": 1})


def test_outputs_of_a_step_must_not_meet_in_the_accumulator() -> None:
    text = "acc_col 0 takes several of the 2 outputs of a step to one accumulator vector"
    with pytest.raises(UndefinedError, match=text):
        run_alone({"outputs": 2})
    run_alone({"outputs": 2, "acc_col": 1})


def test_a_configuration_without_the_engine_has_no_such_instruction() -> None:
    with pytest.raises(MachineFault, match="this configuration has no depthwise engine") as caught:
        run_alone({}, dataclasses.replace(ROOMY, depthwise=False))
    assert caught.value.cause is Fault.ILLEGAL_INSTRUCTION


# Hazards -----------------------------------------------------------------------------------------

DATA = (np.arange(128) * 7 % 11 - 5).astype(np.int8)


def run(body: Body) -> np.ndarray:
    program = image(
        ROOMY,
        [Instruction(opcode, values) for opcode, values in body],
        inputs=[("x", DATA)],
        outputs=[("y", (6, 4), "int8")],
    )
    return Machine(ROOMY).run(program, {"x": DATA})["y"]


def hazard(body: Body, text: str) -> None:
    with pytest.raises(HazardError, match=re.escape(text)):
        run(body)


def load(at: int, size: int, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    return LOAD, {"region": 1, "chip_base": at, "run": size, **more}


def chain(**more: Any) -> Body:
    """Two rows of three outputs, three taps: activations at 0…39, weights at 64…75."""
    convolve = {
        "wgt_base": 64,
        "wgt_col": 4,
        "act_col": 4,
        "acc_col": 1,
        "kernel_cols": 3,
        "outputs": 3,
        "lanes": 4,
        "loop": [{"count": 2, "act": 20, "acc": 3}],
        "wait": [Sync(sem=0), Sync(sem=1)],
        "post": [Sync(sem=2)],
        **more,
    }
    out = {
        "a_space": Space.ACC,
        "a_type": DType.I32,
        "lanes": 4,
        "o_base": 128,
        "o_min": -128,
        "o_max": 127,
        "loop": [{"count": 6, "a": 1, "o": 4}],
        "wait": [Sync(sem=2)],
        "post": [Sync(sem=3)],
    }
    return [
        load(64, 12, post=[Sync(sem=1)]),
        load(0, 40, post=[Sync(sem=0)]),
        (DEPTHWISE, convolve),
        (VECTOR, out),
        (STORE, {"region": 2, "chip_base": 128, "run": 24, "wait": [Sync(sem=3)]}),
    ]


def test_the_chain_passes_with_all_its_semaphores() -> None:
    x, w = DATA[:40].reshape(2, 5, 4).astype(int), DATA[:12].reshape(3, 4).astype(int)
    want = [(x[i, j : j + 3] * w).sum(axis=0) for i in range(2) for j in range(3)]
    np.testing.assert_array_equal(run(chain()), np.clip(want, -128, 127))


@pytest.mark.parametrize(("waits_for", "at"), [(1, 0), (0, 64)])
def test_activations_and_weights_must_be_there(waits_for: int, at: int) -> None:
    body = chain(wait=[Sync(sem=waits_for)])
    if waits_for == 0:
        # What is loaded last is not ordered by waiting for what came before.
        body[0], body[1] = body[1], body[0]
    hazard(body, f"reads spad {at}, and load at instruction 2")


def test_sums_are_read_only_after_done() -> None:
    hazard(chain(post=[Sync(sem=2, point=READ)]), "race: vector at instruction 4")


@pytest.mark.parametrize("at", [0, 39, 64, 75])
def test_read_covers_activations_and_weights(at: int) -> None:
    body = chain(post=[Sync(sem=2), Sync(sem=4, point=READ)])
    run([*body, load(at, 1, wait=[Sync(sem=4)])])
    hazard([*body, load(at, 1)], f"writes spad {at}, and depthwise at instruction 3")


def test_a_read_post_in_a_fold_frees_its_weights_and_the_steps_of_that_slice() -> None:
    """The second row uses the weights that were read before the first."""
    body = chain(post=[Sync(sem=2), Sync(sem=4, level=1, point=READ)])
    want = run(body)
    # The second step waits until the weights have been overwritten.
    body[2][1]["wait"] = [Sync(sem=0), Sync(sem=1, level=1)]
    body.append(load(64, 12, mem_base=1, wait=[Sync(sem=4)], post=[Sync(sem=1)]))
    np.testing.assert_array_equal(run(body), want)
    body[2][1]["fold_loops"] = 1
    assert (run(body)[3:] != want[3:]).any()
    body[2][1]["fold_loops"] = 0
    hazard([*body, load(20, 1)], "writes spad 20, and depthwise")


def test_accumulating_sees_the_engines_own_sums_without_a_semaphore() -> None:
    body = chain(post=[])
    again = dict(chain()[2][1], wait=[], accumulate=1)
    body.insert(3, (DEPTHWISE, again))
    x, w = DATA[:40].reshape(2, 5, 4).astype(int), DATA[:12].reshape(3, 4).astype(int)
    want = [2 * (x[i, j : j + 3] * w).sum(axis=0) for i in range(2) for j in range(3)]
    np.testing.assert_array_equal(run(body), np.clip(want, -128, 127))


def test_accumulating_onto_nothing_is_found() -> None:
    hazard(chain(accumulate=1), "accumulates onto acc 0, which nothing has written")


def test_accumulating_onto_another_engines_sums_needs_a_semaphore() -> None:
    zero = {"o_space": Space.ACC, "o_type": DType.I32, "loop": [{"count": 6, "o": 1}]}
    fill = (LOAD, {"fill": 1, "chip_base": 512, "run": 4, "post": [Sync(sem=6)]})
    wait, both = [Sync(sem=6)], [Sync(sem=0), Sync(sem=1)]

    def body(waits: list[Sync]) -> Body:
        clear = (VECTOR, {**zero, "a_base": 512, "wait": wait, "post": [Sync(sem=7)]})
        return [fill, clear, *chain(accumulate=1, wait=waits)]

    np.testing.assert_array_equal(run(body([*both, Sync(sem=7)])), run(chain()))
    hazard(body(both), "writes acc 0, and vector at instruction 2")


def test_bytes_that_nothing_wrote_are_found() -> None:
    body = chain()
    body[1][1]["run"] = 39
    hazard(body, "reads spad 39, which nothing has written")
    # Padding reads nothing.
    body[2][1].update(width=4, col_step=1)
    body[1][1]["run"] = 36
    run(body)

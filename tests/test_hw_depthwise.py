"""The depthwise engine with its accumulator, against the contract's formula."""

import copy
import dataclasses
import itertools

import numpy as np
import pytest
from golden_programs import random_depthwise
from golden_reference import Reference, randomize
from hw_depthwise import DepthwiseBench, targets

from spec import Instruction, NpuConfig, Opcode, preset
from spec.isa import Point, Sync
from spec.memmap import Fault, Stall

SMALL = dataclasses.replace(preset("tiny"), spad_kib=4, acc_kib=1)
CONFIGS = {
    "tiny": SMALL,
    "pairs": dataclasses.replace(SMALL, depthwise_columns=2),
    "pairs of five": dataclasses.replace(
        SMALL, cols=5, rows=3, acc_kib=5, spad_kib=8, taps=5, depthwise_columns=2
    ),
    "one tap": dataclasses.replace(SMALL, taps=1),
    "five taps": dataclasses.replace(SMALL, cols=3, rows=5, acc_kib=3, taps=5),
    "four vectors": NpuConfig(
        rows=2, cols=64, acc_kib=1, spad_kib=4, banks=4, bus_bytes=8, taps=2
    ),
}  # fmt: skip


def memories(config: NpuConfig, seed: int = 0) -> Reference:
    reference = Reference(config)
    randomize(reference, np.random.default_rng(seed))
    return reference


def run(body: list[Instruction], config: NpuConfig = SMALL, **more) -> DepthwiseBench:
    """Runs and compares what each instruction writes, and the accumulator in the end."""
    reference = memories(config)
    bench = DepthwiseBench(copy.deepcopy(reference), body, **more)
    bench.run()
    assert bench.fault is None
    writes = iter(bench.writes)
    for instruction in body:
        reference.execute(instruction)
        addresses = [addr for row in targets(instruction) for addr in row]
        written = list(itertools.islice(writes, len(addresses)))
        assert [addr for addr, _ in written] == addresses
        for addr, vector in dict(written).items():
            assert vector == reference.acc[addr], (addr, instruction)
    assert not list(writes)
    np.testing.assert_array_equal(np.array(bench.acc), np.array(reference.acc))
    return bench


def layer(**values) -> Instruction:
    """8 rows of 6 outputs, 3x3, padding 1, of an input of 8 x 6 pixels of 4 channels."""
    plain = {
        "act_base": 1000 - 7 * 4, "act_row": 24, "act_col": 4, "wgt_row": 12, "wgt_col": 4,
        "acc_col": 1, "y0": -1, "x0": -1, "row_step": 1, "col_step": 1, "height": 8, "width": 6,
        "kernel_rows": 3, "kernel_cols": 3, "stride": 1, "outputs": 6, "lanes": 4,
        "loop": [{"count": 8, "act": 24, "dy": 1, "acc": 6}],
    }  # fmt: skip
    return Instruction(Opcode.DEPTHWISE, plain | values)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("refuse", [0.0, 0.4])
def test_random_instructions_give_what_the_formula_gives(name: str, refuse: float) -> None:
    config, rng = CONFIGS[name], np.random.default_rng(len(name))
    if config.acc_vectors < 16:
        small = {"outputs": 1, "lanes": 64, "kernel_cols": 2, "loop": []}
        body = [layer(accumulate=i % 2, acc_base=3 - i // 2, **small) for i in range(4)]
    else:
        body = [random_depthwise(rng, config) for _ in range(6)]
    run(body, config, seed=1, refuse=refuse)


def test_what_is_outside_the_input_is_not_read() -> None:
    bench = run([layer()])
    # Per row of outputs 6 columns; 22 kernel rows of the 24 lie in the input; and 9 weights.
    assert len(bench.reads) == 6 * 22 + 9
    assert set(bench.reads[9:]) == {(1000 + 4 * i, 4) for i in range(48)}


def test_rows_follow_each_other_without_a_gap() -> None:
    bench = run([layer(), layer(acc_base=16, wgt_base=300)])
    busy = 2 * (6 * 22 + 8 * 2)
    assert bench.stalls.count(Stall.BUSY) == busy
    first, last = bench.stalls.index(Stall.BUSY), len(bench.stalls) - bench.stalls[::-1].index(0)
    # Weights of the second one: as many of the 9 as the last row has columns outside are hidden.
    # The row begins in the cycle after the last of them.
    assert last - first == busy + 9 - 2 + 1
    assert len(bench.stalls) - last <= 10


def test_a_wider_stride_skips_outputs_not_columns() -> None:
    bench = run([layer(stride=2, outputs=3, loop=[{"count": 4, "act": 48, "dy": 2, "acc": 3}])])
    assert bench.stalls.count(Stall.BUSY) == 4 * (1 + 6 * 3) - 6


STRIDED = {"stride": 2, "outputs": 3, "loop": [{"count": 4, "act": 48, "dy": 2, "acc": 3}]}


def test_pairs_of_columns_take_half_the_cycles() -> None:
    bench = run([layer(**STRIDED)], CONFIGS["pairs"])
    # Four pairs a row, of which the first has one column outside the input.
    assert bench.stalls.count(Stall.BUSY) == 4 * 4 * 3 - 4
    assert len(bench.reads) == 9 + 6 * 11


@pytest.mark.parametrize(("refuse", "late"), [(0.0, 0.0), (0.4, 0.4), (0.0, 0.9)])
def test_pairs_come_between_other_rows(refuse: float, late: float) -> None:
    """What a row leaves in the lanes must not be in the next one's first output; and rows that need
    one port wait for those before them that need both.
    """
    rng = np.random.default_rng(9)
    body = []
    for i in range(12):
        cols, stride = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        cols, stride = (3, 2) if i % 3 == 1 else (cols, stride)
        body.append(
            layer(
                kernel_cols=cols, stride=stride, outputs=int(rng.integers(1, 4)),
                x0=int(rng.integers(-7, 3)), col_step=int(rng.integers(-2, 3)),
                accumulate=int(rng.integers(2)), acc_base=int(rng.integers(8)),
                loop=[{"count": 3, "act": 24, "dy": 1, "acc": 2}],
            )
        )  # fmt: skip
    run(body, CONFIGS["pairs"], refuse=refuse, late=late, seed=4)


def test_addresses_of_second_columns_fault() -> None:
    bad = {"act_base": SMALL.spad_bytes - 4 * 6, "x0": 0, "y0": 0, "act_row": 0}
    good = layer(**STRIDED | bad | {"loop": [], "outputs": 2})
    bench = run([good], CONFIGS["pairs"])
    assert bench.fault is None
    late = layer(**STRIDED | bad | {"loop": [], "act_base": bad["act_base"] + 1})
    bench = DepthwiseBench(memories(CONFIGS["pairs"]), [good, late, good])
    bench.run()
    assert bench.fault == (Fault.CHIP_ADDRESS, 2)


@pytest.mark.parametrize("refuse", [0.0, 0.5])
def test_accumulating_sees_what_was_just_written(refuse: float) -> None:
    """One kernel row: an output a cycle; every row of outputs goes to the same vectors."""
    rows = [{"count": 15, "act": 24}]
    values = {"kernel_rows": 1, "y0": 0, "x0": 0, "act_base": 1000, "height": 1, "loop": rows}
    small = {"kernel_cols": 1, "accumulate": 1}
    body = [layer(**values, **small, outputs=outputs) for outputs in (1, 1, 2, 2, 3, 3)]
    bench = run(body, refuse=refuse, seed=3)
    assert len(bench.writes) == bench.stalls.count(Stall.BUSY) == 2 * 15 * (1 + 2 + 3)


def test_wrapping_positions_are_outside() -> None:
    tall = {"height": 65535, "row_step": 100, "loop": [], "x0": 0, "act_base": 1000}
    body = [layer(y0=y0, act_row=8, **tall) for y0 in (32600, -150, -32768)]
    wide = {"width": 65535, "y0": 0, "loop": [], "act_base": 1000, "act_row": 0}
    for x0, more in ((32763, {}), (-32768, {}), (32763, {"col_step": -128})):
        body.append(layer(x0=x0, act_col=0, **wide, **more))
    run([layer(**each.values | {"acc_base": 6 * i}) for i, each in enumerate(body)])


def test_posts_come_after_what_they_say() -> None:
    for refuse in (0.0, 0.4):
        post = [
            Sync(sem=1, level=1, point=Point.DONE),
            Sync(sem=2, level=1, point=Point.READ),
            Sync(sem=3, level=0, point=Point.READ),
        ]
        bench = run([layer(post=post)], refuse=refuse, seed=5)
        done = [writes for name, _, writes, _ in bench.posts if name == "done"]
        read = [reads for name, sem, _, reads in bench.posts if sem == 2]
        assert len(done) == len(read) == 8
        rows = np.cumsum([9 + 12, 18, 18, 18, 18, 18, 18, 12])
        assert all(n >= 6 * (i + 1) for i, n in enumerate(done))
        assert all(n >= wanted for n, wanted in zip(read, rows, strict=True))
        if not refuse:
            assert all(n <= 6 * (i + 2) for i, n in enumerate(done))
            assert all(n <= wanted + 8 for n, wanted in zip(read, rows, strict=True))
        assert [(n, s) for n, s, *_ in bench.posts if s == 3] == [("read", 3)]


def test_waits_are_taken_once_each() -> None:
    wait = [Sync(sem=4, level=1), Sync(sem=5, level=0), Sync(sem=6, level=1, point=Point.READ)]
    bench = run([layer(wait=wait)], refuse=0.5, seed=2)
    assert bench.waits == [4, 5, 6, *[4, 6] * 7]


@pytest.mark.parametrize(
    "bad",
    [
        {"act_base": SMALL.spad_bytes - 3, "y0": 0, "x0": 0, "loop": []},
        {"act_base": 0, "y0": 0, "x0": 0, "act_row": -1, "loop": []},
        {"wgt_base": SMALL.spad_bytes - 3},
        {"wgt_base": SMALL.spad_bytes - 12 * 3 + 1},
        {"acc_base": SMALL.acc_vectors - 47},
        {"acc_base": 2, "acc_col": -1, "loop": []},
    ],
)  # fmt: skip
def test_addresses_outside_the_memories_fault(bad) -> None:
    body = [layer(), layer(**bad), layer()]
    bench = DepthwiseBench(memories(SMALL), body)
    bench.run()
    assert bench.fault == (Fault.CHIP_ADDRESS, 2)


def test_what_is_not_accessed_does_not_fault() -> None:
    """Padding below the scratchpad's start and beyond its end."""
    size = 8 * 6 * 4
    first = layer(act_base=(-7 * 4) % (1 << 24), wgt_base=1000)
    last = layer(act_base=SMALL.spad_bytes - size - 7 * 4, acc_base=SMALL.acc_vectors - 48)
    run([first, last])


def test_the_first_instruction_at_fault_is_named() -> None:
    """The weights of the next instruction are looked at while the one before is under way."""
    late = {"kernel_rows": 1, "y0": 0, "act_base": SMALL.spad_bytes - 44 * 4}  # in the last row
    body = [layer(), layer(**late), layer(wgt_base=SMALL.spad_bytes)]
    bench = DepthwiseBench(memories(SMALL), body)
    bench.run()
    assert bench.fault == (Fault.CHIP_ADDRESS, 2)

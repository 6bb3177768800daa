"""What kernels are refused for: the line of their source, the value, and the way out."""

import inspect
import re

import numpy as np
import pytest

from sw.language.errors import KernelError, RaceError
from sw.language.kernel import kernel
from sw.language.manual import semaphore
from sw.language.products import depthwise, dot
from sw.language.tensor import Tensor, empty, load, store
from sw.language.tiles import tiles
from sw.language.types import int8, int16, int32
from sw.language.values import keep


def line_of(made, text):
    """`file:line` of the first line of a kernel that has `text`."""
    lines, first = inspect.getsourcelines(made.function)
    at = next(i for i, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(made.function)}:{first + at}"


def refused(made, *specs, at="", **values):
    """The error of a kernel, which names the line that has `at`."""
    with pytest.raises(KernelError) as caught:
        made.compile(*specs, **values)
    if at:
        assert line_of(made, at) in caught.value.source
        assert line_of(made, at) in str(caught.value)
    return str(caught.value), caught.value


# Sizes, shapes, types -----------------------------------------------------------------------------


@kernel
def product(a: Tensor, b: Tensor, out: Tensor) -> None:
    x, w = load(a), load(b)
    sums = dot(x, w)
    store(out, sums.requantize(0.01))


def test_a_tile_too_large_for_the_scratchpad_says_how_large():
    text, _ = refused(product, int8[1024, 512], int8[512, 16], int8[1024, 16], at="load(a)")
    assert "a int8[1024, 512] takes 524,288 bytes of the scratchpad" in text
    assert "configuration default has 262,144" in text
    assert "hint: cut it into smaller tiles" in text


def test_tiles_that_do_not_fit_together_are_listed():
    text, _ = refused(product, int8[900, 64], int8[64, 512], int8[900, 512], at="dot(")
    assert "sums int32[900, 512] takes 28,800 vectors of the accumulator" in text
    assert "configuration default has 1,024" in text

    @kernel
    def both(a: Tensor, b: Tensor, out: Tensor) -> None:
        x, y = load(a), load(b)
        store(out, (x + y).to("int8"))

    text, error = refused(both, *[int8[600, 200]] * 3)
    assert "configuration default has 262,144: " in text
    assert re.search(r"test_language_errors.py:\d+ a: 1 x 120,000", text)
    assert "hint: cut smaller tiles, or keep fewer of them at once" in text
    assert error.node == "both"


def test_operands_of_a_product_must_match():
    text, _ = refused(product, int8[8, 16], int8[17, 8], int8[8, 8], at="dot(")
    assert "x [8, 16] and w [17, 8]: must be [..., k] and [k, n] with the same k" in text


def test_a_product_takes_int8():
    text, _ = refused(product, int16[8, 16], int8[16, 8], int8[8, 8], at="dot(")
    assert "x is int16[8, 16]: a product takes int8" in text


def test_what_is_stored_has_the_tensors_shape_and_type():
    text, _ = refused(product, int8[8, 16], int8[16, 8], int8[8, 9], at="store(")
    assert "out is int8[8, 9], the tile int8[8, 8]" in text
    text, _ = refused(product, int8[8, 16], int8[16, 8], int32[8, 8], at="store(")
    assert "out is int32, the tile int8" in text
    assert "requantize(scale, dtype='int32')" in text


def test_slices_beyond_a_tensor_are_refused():
    @kernel
    def beyond(a: Tensor, out: Tensor) -> None:
        store(out, load(a[4:12]))

    text, _ = refused(beyond, int8[8, 16], int8[8, 16], at="a[4:12]")
    assert "a: dimension 0: 4:12 lies outside 0:8" in text


def test_every_element_of_a_result_must_be_stored():
    @kernel
    def half(a: Tensor, out: Tensor) -> None:
        store(out[0:4], load(a[0:4]))

    text, _ = refused(half, int8[8, 16], int8[8, 16])
    assert "out int8[8, 16]: element [4, 0] is never stored, of 64" in text


def test_tiles_are_read_only_where_they_are_filled():
    @kernel
    def partly(a: Tensor, out: Tensor) -> None:
        whole = empty(a, int32[8, 16])
        keep(load(a[0:4]) + 1, into=whole[0:4])
        store(out, whole)

    text, _ = refused(partly, int8[8, 16], int32[8, 16], at="store(")
    assert "int32 tile int32[8, 16], of which nothing has written 64 elements" in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("float32", (8, 8)), "dtype 'float32': must be one of int8, int16, int32"),
        (np.zeros((2, 2)), "dtype 'float64'"),
        (("int8", (0, 8)), r"shape \[0, 8\]: must be whole numbers from 1 on"),
        ("int8", "is no shape with an element type"),
    ],
)
def test_specs_of_tensors_are_checked(given, message):
    with pytest.raises(KernelError, match=message):
        product.compile(given, int8[8, 8], int8[8, 8])


def test_missing_arguments_and_calls_say_what_to_do():
    with pytest.raises(KernelError, match="argument out is missing"):
        product.compile(int8[8, 8], int8[8, 8])
    with pytest.raises(KernelError, match="is a kernel, no function of arrays"):
        product(1, 2, 3)
    with pytest.raises(KernelError, match="no parameter is a tensor"):
        kernel(lambda a: None)


def test_a_run_names_what_it_does_not_know():
    program = product.compile(int8[8, 8], int8[8, 8], int8[8, 8])
    with pytest.raises(KernelError, match="latence: no input and no option of a device"):
        program.run(np.zeros((8, 8), np.int8), np.zeros((8, 8), np.int8), latence=3)


def test_what_python_refuses_is_an_error_at_the_kernels_line():
    @kernel
    def wrong(a: Tensor, out: Tensor) -> None:
        store(out, load(a).median())

    text, error = refused(wrong, int8[4, 4], int8[4, 4], at="median")
    assert "wrong: AttributeError: 'Tile' object has no attribute 'median'" in text
    assert isinstance(error.__cause__, AttributeError)


# Functions that a configuration lacks -------------------------------------------------------------


def test_depthwise_needs_the_engine():
    @kernel
    def filtered(x: Tensor, w: Tensor, out: Tensor) -> None:
        store(out, depthwise(load(x), load(w)).requantize(0.1))

    specs = int8[6, 6, 4], int8[3, 3, 4], int8[4, 4, 4]
    filtered.compile(*specs)
    text, _ = refused(filtered, *specs, config="micro", at="depthwise(")
    assert "configuration micro has no depthwise engine" in text
    assert "--set depthwise=true" in text


def test_functions_of_the_vector_engine_are_refused_at_their_line():
    @kernel
    def largest(a: Tensor, out: Tensor) -> None:
        x = load(a)
        store(out, x.max())

    largest.compile(int8[8, 16], int32[8, 1])
    text, _ = refused(largest, int8[8, 16], int32[8, 1], config="micro", at="x.max()")
    assert "needs reductions across the vector lanes" in text
    assert "lane_reductions=False" in text


# Order --------------------------------------------------------------------------------------------


def ordered_by_hand(forget=""):
    @kernel(sync="manual", result=lambda a, b: int8[a.shape[0], b.shape[1]])
    def by_hand(a: Tensor, b: Tensor, out: Tensor) -> None:
        names = ("a", "b", "sums", "done")
        ready = {name: [] if name == forget else [semaphore(name)] for name in names}
        x = load(a, post=ready["a"])
        w = load(b, post=ready["b"])
        sums = dot(x, w, wait=ready["a"], wait_weights=ready["b"], post=ready["sums"])
        y = keep(sums.requantize(2.0**-7), wait=ready["sums"], post=ready["done"])
        store(out, y, wait=ready["done"])

    return by_hand


SPECS = int8[13, 37], int8[37, 21]


@pytest.mark.parametrize("device", ["golden", pytest.param("rtl", marks=pytest.mark.rtl)])
def test_a_kernel_may_order_its_statements_itself(device):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s.shape, dtype=np.int8) for s in SPECS)
    got = ordered_by_hand().compile(*SPECS).run(a, b, device=device)["out"]
    sums = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(got, np.clip((sums + 64) >> 7, -128, 127))


@pytest.mark.parametrize(
    ("forget", "first", "second", "where"),
    [
        ("b", r"load b \(.*\) writes bytes 496…1272", "dot .* reads bytes 496…1272", "scratchpad"),
        ("sums", "dot .* writes vectors", "vector .* reads vectors", "accumulator"),
        ("done", "vector .* writes bytes", "store out .* reads bytes", "scratchpad"),
    ],
)
def test_a_race_names_both_statements_with_tiles_and_addresses(forget, first, second, where):
    with pytest.raises(RaceError) as caught:
        ordered_by_hand(forget).compile(*SPECS)
    error = caught.value
    assert re.search(first, error.first) and re.search(second, error.second)
    assert where in error.first and where in error.second
    assert all(
        re.search(r"\(test_language_errors.py:\d+\)", x) for x in (error.first, error.second)
    )
    assert error.first in str(error) and error.second in str(error)


def test_overwriting_what_is_still_read_is_a_race():
    @kernel(sync="manual")
    def copied(a: Tensor, out: Tensor, safe: bool) -> None:
        ready, free = semaphore("ready"), semaphore("free")
        for n, i in enumerate(tiles(a.shape[0], 8)):
            x = load(a[i], buffers=2, post=[ready], wait=[free] if safe and n >= 2 else [])
            store(out[i], x, wait=[ready], read=[free] if safe else [])

    specs = int8[64, 64], int8[64, 64]
    array = np.arange(64 * 64).astype(np.int8).reshape(64, 64)
    assert np.array_equal(copied.compile(*specs, safe=True).run(array)["out"], array)
    with pytest.raises(RaceError) as caught:
        copied.compile(*specs, safe=False)
    assert "store out[0:8]" in caught.value.first
    assert "load a[16:24]" in caught.value.second


def test_a_tile_whose_place_another_took_is_refused():
    @kernel
    def overlapping(a: Tensor, out: Tensor, second: int) -> None:
        x = load(a[0:8], at=0)
        y = load(a[8:16], at=second)
        store(out[0:8], x)
        store(out[8:16], y)

    specs = int8[16, 64], int8[16, 64]
    array = np.arange(1024).astype(np.int8).reshape(16, 64)
    assert np.array_equal(overlapping.compile(*specs, second=512).run(array)["out"], array)
    with pytest.raises(RaceError) as caught:
        overlapping.compile(*specs, second=256)
    assert "load a[8:16]" in caught.value.first
    assert "bytes 256…767 of the scratchpad" in caught.value.first
    assert "store out[0:8]" in caught.value.second
    assert "bytes 0…511 of the scratchpad" in caught.value.second


def test_too_few_buffers_are_refused():
    @kernel
    def kept(a: Tensor, out: Tensor, buffers: int) -> None:
        parts = list(tiles(a.shape[0], 8))
        held = [load(a[i], buffers=buffers) for i in parts]
        for i, x in zip(parts, held, strict=True):
            store(out[i], x)

    specs = int8[16, 64], int8[16, 64]
    kept.compile(*specs, buffers=2)
    with pytest.raises(RaceError, match="buffers=1: use more buffers"):
        kept.compile(*specs, buffers=1)


def test_waiting_for_what_nothing_posts_is_refused():
    @kernel(sync="manual")
    def stuck(a: Tensor, out: Tensor) -> None:
        store(out, load(a), wait=[semaphore("never")])

    text, _ = refused(stuck, int8[16, 64], int8[16, 64])
    assert "the kernel does not end: deadlock" in text


def test_a_semaphore_has_one_engine_that_posts_and_one_that_waits():
    @kernel(sync="manual")
    def shared(a: Tensor, out: Tensor) -> None:
        ready = semaphore("ready")
        x = load(a, post=[ready])
        y = keep(x + 1, wait=[ready], post=[ready])
        store(out, y, wait=[ready])

    text, _ = refused(shared, int8[16, 64], int32[16, 64], at="keep(")
    assert "semaphore 'ready'" in text
    assert "hint: use a semaphore for each engine and point" in text

"""Kernel workloads: shapes from text, seeds, MACs, outputs worth comparing."""

import numpy as np
import pytest

from sw.compiler.tosa.interpreter import run_graph
from sw.models.kernels import KernelError, kernel, kernel_names, parse_shape


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("matmul", "0x3x4", "dimension m=0 is illegal"),
        ("matmul", "3x-1x4", "dimension k=-1 is illegal"),
        ("matmul", "3x4", "matmul wants MxKxN"),
        ("matmul", "3xax4", "k='a' is not a whole number"),
        ("matmul", "m=3,q=4", "matmul has no dimension 'q'; it has m, k, n"),
        ("conv2d", "3x4x5", "conv2d wants key=value"),
        ("conv2d", "h=4,w", "'w' is not of the form key=value"),
        ("conv2d", "h=4,s=0", "dimension stride_y=0 is illegal"),
        ("add", "h=70000", "dimension h=70000 is illegal"),
    ],
)
def test_bad_shapes_say_what_is_wrong(name: str, text: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        parse_shape(text, name)


def test_unknown_kernel_lists_the_known_ones() -> None:
    with pytest.raises(KernelError, match="kernel 'gemm': no such kernel; kernels are matmul"):
        kernel("gemm")


def test_window_larger_than_the_input_is_refused() -> None:
    with pytest.raises(KernelError, match="a window of 5 does not fit in 3"):
        kernel("conv2d", parse_shape("h=3,w=9,k=5,p=0", "conv2d"))
    with pytest.raises(KernelError, match="pad_top=2 must be below kh=2"):
        kernel("max_pool2d", parse_shape("k=2,p=2", "max_pool2d"))


def test_aliases_set_several_dimensions() -> None:
    shape = parse_shape("k=5,s=2,p=1,d=3,kw=4", "conv2d")
    assert (shape["kh"], shape["kw"]) == (5, 4)
    assert (shape["stride_y"], shape["dilation_x"], shape["pad_right"]) == (2, 3, 1)


@pytest.mark.parametrize("name", kernel_names())
def test_same_seed_same_data_and_outputs_are_spread(name: str) -> None:
    one, two, other = kernel(name, seed=7), kernel(name, seed=7), kernel(name, seed=8)
    assert str(one.graph) == str(two.graph)
    for key, array in one.inputs.items():
        np.testing.assert_array_equal(array, two.inputs[key])
        assert (array != other.inputs[key]).any()
    for array in run_graph(one.graph, one.inputs).values():
        info = np.iinfo(array.dtype)
        assert len(np.unique(array)) > 20
        assert ((array == info.min) | (array == info.max)).mean() < 0.2


@pytest.mark.parametrize(
    ("name", "text", "macs"),
    [
        ("matmul", "128x256x256", 8388608),
        ("conv2d", "h=56,w=56,c=64,oc=64,k=3,p=1", 115605504),
        ("conv2d", "h=8,w=8,c=3,oc=4,k=1,p=0,s=2", 4 * 4 * 4 * 3),
        ("depthwise_conv2d", "n=3,h=112,w=112,c=17,k=3,s=2,p=1", 3 * 56 * 56 * 17 * 9),
        ("depthwise_conv2d", "h=4,w=5,c=3,multiplier=2", 4 * 5 * 6 * 9),
        ("fully_connected", "2x64x10", 1280),
        ("max_pool2d", "h=8,w=8,c=3", 4 * 4 * 3 * 4),
        ("add", "h=2,w=3,c=4", 24),
    ],
)
def test_macs_are_outputs_times_reduction(name: str, text: str, macs: int) -> None:
    assert kernel(name, parse_shape(text, name)).macs == macs


def test_windows_are_made_exact_by_less_padding_or_a_crop() -> None:
    by_padding = kernel("conv2d", parse_shape("h=8,w=8,s=2,p=1", "conv2d")).graph
    assert [op.kind for op in by_padding.ops] == ["CONV2D", "RESCALE"]
    assert by_padding.ops[0].attributes["pad"] == (1, 0, 1, 0)
    by_crop = kernel("conv2d", parse_shape("h=8,w=8,k=1,s=2,p=0", "conv2d")).graph
    assert [op.kind for op in by_crop.ops] == ["SLICE", "CONV2D", "RESCALE"]

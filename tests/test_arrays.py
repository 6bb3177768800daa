"""Files of arrays: what is read, converted, refused."""

import io
import re
import struct

import numpy as np
import pytest

from spec.errors import SystolaError
from sw.runtime.arrays import ArrayFileError, converted, load_array, load_as

GOOD = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


def npy(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def with_header(text, version=1, body=b"\0" * 64):
    raw = text if isinstance(text, bytes) else text.encode("latin1")
    length = struct.pack("<H" if version == 1 else "<I", len(raw))
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw + body


def described(descr="'<i2'", fortran="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", ">i2", "<u4", ">i8", "f2", ">f4", "f8"])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_layout_of_numbers_is_read_as_numpy_reads_it(tmp_path, dtype, shape, order):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", array)
    got = load_array(tmp_path / "x.npy")
    np.testing.assert_array_equal(got, array)
    assert got.shape == shape
    assert got.dtype == array.dtype.newbyteorder("=")
    assert got.flags.c_contiguous


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(tmp_path, version):
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, GOOD, version=version)
    np.testing.assert_array_equal(load_array(tmp_path / "x.npy"), GOOD)


BAD = {
    "empty": (b"", "it is empty"),
    "text": (b"not an array", "it begins with b'not an', not b'\\x93NUMPY'"),
    "magic only": (b"\x93NUMPY", "it begins with b'\\x93NUMPY'"),
    "version": (b"\x93NUMPY\x09\x00\x00\x00", "version 9.0 of the format"),
    "header cut off": (npy(GOOD)[:40], "a header of 118 bytes is announced, 30 are there"),
    "data cut off": (npy(GOOD)[:-1], "int16[2, 3, 4] needs 48 bytes, the file holds 47"),
    "huge header": (with_header(b" " * 20_000, 2), "a header of 20000 bytes"),
    "announced header": (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}", "a header of 2147483647 bytes"),
    "nested header": (with_header("[" * 9000), "malformed header"),
    "deep header": (with_header("-" * 9000 + "1"), "malformed header"),
    "code in header": (with_header("__import__('os').getcwd()"), "malformed header"),
    "other keys": (with_header("{'descr': '<i2'}"), "malformed header"),
    "objects": (npy(np.array([{}, 1], object)), "elements of type |O"),
    "records": (npy(np.zeros(2, "i4,f4")), "elements of type [('f0', '<i4'), ('f1', '<f4')]"),
    "texts": (npy(np.array(["a"])), "elements of type <U1; one array of numbers is needed"),
    "complex": (npy(np.zeros(2, complex)), "elements of type <c16"),
    "dates": (npy(np.zeros(2, "M8[s]")), "elements of type <M8[s]"),
    "odd type": (with_header(described("'<i3'")), "elements of type <i3"),
    "type of no text": (with_header(described("7")), "elements of type 7"),
    "petabytes": (with_header(described(shape="(1<<50,)".replace("1<<50", str(1 << 50)))), "needs"),
    "too large": (with_header(described(shape=f"(0, {1 << 70})")), "too large"),
    "negative": (with_header(described(shape="(-1, 4)")), "must be a tuple of whole numbers"),
    "half": (with_header(described(shape="(0.5,)")), "must be a tuple of whole numbers"),
    "true": (with_header(described(shape="(True,)")), "must be a tuple of whole numbers"),
    "shape of no tuple": (with_header(described(shape="4")), "must be a tuple of whole numbers"),
    "dimensions": (with_header(described(shape=f"({'1,' * 40})")), "40 dimensions"),
    "order": (with_header(described(fortran="'no'")), "fortran_order no: must be True or False"),
    "archive": (b"PK\x03\x04" + b"\0" * 100, "holds several arrays (.npz)"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_array_is_refused_with_the_reason(tmp_path, name):
    data, message = BAD[name]
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(ArrayFileError, match=re.escape(message)) as caught:
        load_array(path, "--input x.npy")
    assert str(caught.value).startswith("--input x.npy: ")
    assert isinstance(caught.value, SystolaError)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ArrayFileError, match=r"there is no such file$"):
        load_array(tmp_path / "none.npy")
    with pytest.raises(ArrayFileError, match=r"it is no regular file$"):
        load_array(tmp_path)
    with pytest.raises(ArrayFileError, match=r"no readable .npy file: "):
        load_array(tmp_path / "a\0b.npy")
    with pytest.raises(ArrayFileError, match="File name too long"):
        load_array(tmp_path / ("x" * 300))


def test_conversions_that_fit_are_done_and_said():
    said = []
    got = converted(np.array([0, 255], np.int64), "uint8", "x.npy", say=said.append)
    assert got.dtype == np.uint8
    assert got.tolist() == [0, 255]
    converted(np.array([0, 1]), "bool", "b.npy", say=said.append)
    converted(np.array([1.5]), "float32", "f.npy", say=said.append)
    assert said == [
        "x.npy: int64 taken as uint8",
        "b.npy: int64 taken as bool",
        "f.npy: float64 taken as float32",
    ]
    converted(np.zeros(2, np.int8), "int8", "y.npy", say=said.append)
    assert len(said) == 3


@pytest.mark.parametrize(
    "array, dtype, message",
    [
        (np.array([[0, 3], [128, -1]]), "int8", "x: value 128 at [1, 0]; input a is int8"),
        (np.array([1, -1]), "uint16", "x: value -1 at [1]; input a is uint16"),
        (np.array([0, 2], np.uint8), "bool", "x: value 2 at [1]; input a is bool"),
        (np.array([2**64 - 1], np.uint64), "int32", "x: value 18446744073709551615 at [0]"),
        (np.array([2**64 - 1], np.uint64), "int64", "x: value 18446744073709551615 at [0]"),
        (np.array(-(2**40)), "int32", "x: value -1099511627776 at []; input a is int32"),
        (np.zeros(2), "int8", "x: holds float64; input a takes whole numbers of type int8"),
        (np.array([0, np.nan]), "float32", "x: value nan at [1]; input a takes finite numbers"),
        (np.array([0, -np.inf], np.float32), "float32", "value -inf at [1]"),
        (np.array([1e300]), "float32", "x: value 1e+300 at [0] is too large; input a is float32"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_the_first(array, dtype, message):
    with pytest.raises(ArrayFileError, match=re.escape(message)):
        converted(array, dtype, "x", takes="input a")


def test_shapes_are_compared(tmp_path):
    np.save(tmp_path / "x.npy", GOOD)
    with pytest.raises(ArrayFileError, match=re.escape("x: shape [2, 3, 4]; input a is [4, 6]")):
        load_as(tmp_path / "x.npy", "int16", (4, 6), where="x", takes="input a")

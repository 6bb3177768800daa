"""Program images: what is saved is loaded, and whatever is damaged or foreign is refused."""

import json
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.config import preset
from spec.isa import ISA_DIGEST, Instruction, Opcode, encode_program
from spec.program import (
    REGION_CONST,
    REGION_INPUT,
    REGION_OUTPUT,
    REGION_TEMP,
    Image,
    ImageError,
    Port,
    load_image,
)

TINY = preset("tiny")


def program(*body):
    begin = Instruction(
        Opcode.BEGIN,
        {"isa_digest": ISA_DIGEST & 0xFFFFFFFF, "config_digest": TINY.digest()},
    )
    data = encode_program([begin, *body, Instruction(Opcode.END)])
    return np.frombuffer(data, np.uint8)


def small_image(**changes):
    parts = {
        "config": TINY,
        "program": program(Instruction(Opcode.LOAD, {"run": 64})),
        "constants": np.arange(100, dtype=np.uint8),
        "inputs": (Port(name="x", offset=64, shape=(2, 3), scale=0.5, zero_point=-3),),
        "outputs": (Port(name="y", offset=0, shape=(4,), dtype="int32"),),
        "temp_bytes": 4096,
        "info": {"name": "small", "macs": 12},
    }
    return Image(**{**parts, **changes})


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "p.systola"
    small_image().save(path)
    return path


def header_of(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def rewrite(path, header, body):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def change_meta(path, **changes):
    header, body = header_of(path)
    for key, value in changes.items():
        if value is None:
            del header["__metadata__"][key]
        else:
            header["__metadata__"][key] = value
    rewrite(path, header, body)


def fails(path, pattern):
    with pytest.raises(ImageError, match=pattern) as caught:
        load_image(path)
    assert str(path) in str(caught.value)


def test_what_is_saved_is_loaded(saved):
    want, got = small_image(), load_image(saved)
    assert (got.config, got.inputs, got.outputs) == (want.config, want.inputs, want.outputs)
    assert (got.temp_bytes, dict(got.info)) == (want.temp_bytes, dict(want.info))
    np.testing.assert_array_equal(got.program, want.program)
    np.testing.assert_array_equal(got.constants, want.constants)
    assert [i.opcode for i in got.instructions()] == [Opcode.BEGIN, Opcode.LOAD, Opcode.END]


@given(
    constants=st.binary(max_size=300),
    shape=st.lists(st.integers(1, 9), max_size=4),
    dtype=st.sampled_from(["int8", "uint8", "int16", "int32"]),
    zero_point=st.integers(-128, 255),
    scale=st.floats(0, 1e6),
)
@settings(max_examples=50, deadline=None)
def test_round_trip_of_any_ports_and_constants(
    tmp_path_factory, constants, shape, dtype, zero_point, scale
):
    path = tmp_path_factory.mktemp("images") / "p.systola"
    port = Port(
        name="é x", offset=0, shape=tuple(shape), dtype=dtype, scale=scale, zero_point=zero_point
    )
    image = small_image(constants=np.frombuffer(constants, np.uint8), inputs=(port,))
    image.save(path)
    got = load_image(path)
    assert got.inputs == (port,)
    assert got.constants.tobytes() == constants


def test_safetensors_opens_an_image(saved):
    from safetensors import safe_open

    with safe_open(saved, framework="numpy") as file:
        assert set(file.keys()) == {"program", "constants"}
        assert file.metadata()["format"] == "systola-image"
        np.testing.assert_array_equal(file.get_tensor("program"), small_image().program)
        np.testing.assert_array_equal(file.get_tensor("constants"), small_image().constants)


def test_same_image_is_the_same_file(saved, tmp_path):
    small_image().save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_saving_leaves_no_partial_file(saved):
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_every_truncation_is_refused(saved):
    data = saved.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    cuts = [0, 1, 7, 8, 9, 8 + size // 2, 7 + size, 8 + size, 9 + size, len(data) - 1]
    for cut in cuts:
        saved.write_bytes(data[:cut])
        if cut < 8:
            fails(saved, rf": {cut} bytes: too short for a program image \(cut off\?\)$")
        elif cut < 8 + size:
            fails(saved, rf": cut off: header needs {8 + size} bytes, the file has {cut}$")
        else:
            fails(saved, rf": cut off: {len(data)} bytes expected, the file has {cut}$")


def test_missing_file_and_folder(tmp_path):
    fails(tmp_path / "none", r": cannot read: No such file or directory$")
    fails(tmp_path, r": cannot read: Is a directory$")


def test_files_of_another_kind(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00" + bytes(100))
    fails(path, r": header length 282584257676671 is not credible: no program image$")
    path.write_bytes(struct.pack("<Q", 4) + b"[1] ")
    fails(path, r": malformed header: ")
    path.write_bytes(struct.pack("<Q", 4) + b"nope")
    fails(path, r": malformed header: ")
    rewrite(path, {"__metadata__": {"format": "pt"}}, b"")
    fails(path, r": format 'pt' is not 'systola-image': no program image$")
    rewrite(path, {}, b"")
    fails(path, r": malformed header: ")


@pytest.mark.parametrize("key", ["config", "inputs", "outputs", "temp_bytes", "info"])
def test_missing_metadata_is_refused(saved, key):
    change_meta(saved, **{key: None})
    fails(saved, rf": malformed image: '{key}'$")


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"config": "{"}, r": malformed image: "),
        ({"config": '{"rows": 1}'}, r": malformed image: rows=1: must lie in 2…128$"),
        ({"config": '{"speed": 1}'}, r": malformed image: .*speed"),
        ({"inputs": '[{"name": "x"}]'}, r": malformed image: "),
        ({"temp_bytes": "many"}, r": malformed image: "),
        ({"temp_bytes": "-1"}, r"temp_bytes -1: must be a whole number in 0…4294967295$"),
        ({"temp_bytes": "9" * 17}, r"temp_bytes 9{17}: must be a whole number in 0…4294967295$"),
        ({"info": "[1]"}, r"info \[1\]: must be a mapping of names to values$"),
        ({"info": '{"macs": "abc"}'}, r"info: macs 'abc': must be a whole number from 0$"),
        ({"info": "[" * 100_000}, r": malformed image: "),
        ({"inputs": "{}"}, r"ports '{}': must be a list$"),
        ({"inputs": "null"}, r"ports 'null': must be a list$"),
        ({"inputs": '[{"name": "x", "offset": 0, "shape": "ab"}]'}, r"must be an object with a"),
        ({"isa_version": 5}, r": malformed header: __metadata__ must map names to texts$"),
        ({"isa_version": "1.-3"}, r": isa_version '1\.-3' is not of the form major\.minor$"),
        ({"config": '{"name": 5}'}, r": malformed image: name=5: must be a text$"),
        ({"isa_version": "one"}, r": isa_version 'one' is not of the form major\.minor$"),
    ],
)
def test_malformed_metadata_is_refused(saved, changes, pattern):
    change_meta(saved, **changes)
    fails(saved, pattern)


@pytest.mark.parametrize("meta", [[], "x", None, 5])
def test_metadata_that_is_no_mapping_is_refused(saved, meta):
    header, body = header_of(saved)
    rewrite(saved, {**header, "__metadata__": meta}, body)
    fails(saved, r": malformed header: __metadata__ must map names to texts$")


@pytest.mark.parametrize(
    "offsets",
    [[-5, 100], ["a", "b"], [0], [0, 1, 2], [100, 0], [0.0, 16.0], [False, True], "ab", None, 3],
)
def test_offsets_that_are_no_span_are_refused(saved, offsets):
    header, body = header_of(saved)
    header["program"]["data_offsets"] = offsets
    rewrite(saved, header, body)
    fails(
        saved,
        rf": malformed header: program: data_offsets {re.escape(repr(offsets))}: must be two "
        r"whole numbers, 0 <= start <= end$",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 5}, "port name 5: must be a text that is not empty"),
        ({"name": ""}, "port name '': must be a text that is not empty"),
        ({"name": "../x"}, "port name '../x': must be a file's name, without / and \\"),
        (
            {"dtype": "foo"},
            "port x: dtype 'foo': must be one of bool, int8, uint8, int16, uint16, int32",
        ),
        (
            {"dtype": "float32"},
            "port x: dtype 'float32': must be one of bool, int8, uint8, int16, uint16, int32",
        ),
        ({"shape": [4]}, "port x: shape [4]: must be a tuple of whole numbers above 0"),
        ({"shape": (-1, 4)}, "port x: shape (-1, 4): must be a tuple of whole numbers above 0"),
        ({"shape": (0,)}, "port x: shape (0,): must be a tuple of whole numbers above 0"),
        ({"shape": ("a",)}, "port x: shape ('a',): must be a tuple of whole numbers above 0"),
        (
            {"shape": (1 << 40,)},
            "port x: 1099511627776 bytes at offset 0: must end within 4294967295 bytes",
        ),
        (
            {"shape": (1 << 32, 1 << 32)},
            "port x: 18446744073709551616 bytes at offset 0: must end within 4294967295 bytes",
        ),
        ({"offset": -64}, "port x: offset -64: must be a whole number from 0"),
        ({"offset": "x"}, "port x: offset 'x': must be a whole number from 0"),
        (
            {"offset": 1 << 60},
            "port x: 4 bytes at offset 1152921504606846976: must end within 4294967295 bytes",
        ),
        ({"scale": "1"}, "port x: scale '1': must be a number"),
        ({"scale": float("nan")}, "port x: scale nan: must be finite and not negative"),
        ({"scale": -1.0}, "port x: scale -1.0: must be finite and not negative"),
        ({"zero_point": 0.5}, "port x: zero_point 0.5: must be a whole number"),
    ],
)
def test_port_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ImageError, match=f"^{re.escape(message)}$"):
        Port(**{"name": "x", "offset": 0, "shape": (4,), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"program": program()[:-1]}, "program: 31 bytes: must be a multiple of 16"),
        (
            {"constants": np.zeros(4, np.int8)},
            "constants: must be a one-dimensional array of uint8",
        ),
        (
            {"inputs": (Port(name="x", offset=0, shape=()), Port(name="x", offset=64, shape=()))},
            "inputs: x: each name may occur only once",
        ),
        ({"temp_bytes": True}, "temp_bytes True: must be a whole number in 0…4294967295"),
        ({"info": {"macs": -1}}, "info: macs -1: must be a whole number from 0"),
    ],
)
def test_image_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ImageError, match=f"^{re.escape(message)}$"):
        small_image(**changes)


@pytest.mark.parametrize("version", ["3.0", "1.9", "2.1"])
def test_another_isa_version_is_refused_with_both(saved, version):
    change_meta(saved, isa_version=version)
    digest = f"{ISA_DIGEST:016x}"
    fails(
        saved,
        rf": made for ISA {re.escape(version)} \(digest {digest}\), this release has 2\.0 "
        rf"\(digest {digest}\); compile the program again$",
    )


def test_another_isa_digest_is_refused_with_both(saved):
    change_meta(saved, isa_digest="0" * 16)
    fails(saved, rf"made for ISA 2\.0 \(digest 0{{16}}\), .*\(digest {ISA_DIGEST:016x}\)")


def test_config_that_does_not_match_its_digest_is_refused(saved):
    change_meta(saved, config_digest="0" * 16)
    fails(saved, rf": configuration digest 0{{16}} does not match the stored .*{TINY.digest_hex}")


def test_unknown_metadata_is_ignored(saved):
    change_meta(saved, colour="blue")
    assert load_image(saved).config == TINY


def test_another_configuration_is_refused_with_both_digests():
    default = preset("default")
    message = (
        f"image is for configuration tiny ({TINY.digest_hex}), the device is default "
        f"({default.digest_hex}); compile it again with --config default"
    )
    with pytest.raises(ImageError, match=f"^{re.escape(message)}$"):
        small_image().check_device(default)
    small_image().check_device(TINY)


def test_changed_preset_is_asked_for_with_its_options():
    device = TINY.with_settings({"rows": "8", "banks": "4"})
    with pytest.raises(ImageError, match=r"again with --config tiny --set rows=8 --set banks=4$"):
        small_image().check_device(device)
    assert device.options == "--config tiny --set rows=8 --set banks=4"


def test_illegal_opcode_is_named_with_its_offset():
    data = program().copy()
    data[16] = 0x77
    with pytest.raises(ImageError, match=r"^program: offset 0x10: illegal opcode 0x77$"):
        small_image(program=data).instructions()


def test_region_sizes():
    image = small_image()
    sizes = {r: image.region_bytes(r) for r in range(5)}
    assert sizes == {
        REGION_CONST: 100,
        REGION_INPUT: 64 + 6,
        REGION_OUTPUT: 16,
        REGION_TEMP: 4096,
        4: 0,
    }

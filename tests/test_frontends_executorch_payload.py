"""Delegates that are damaged: each is an error with a reason, and the process goes on."""

import hashlib
import json
import random
import struct
from dataclasses import replace

import pytest
import torch
from executorch_models import cnn, lowered

from spec.errors import SystolaError
from sw.frontends.delegates.errors import DelegateError
from sw.frontends.delegates.payload import MAGIC, read_payload
from systola.executorch import ExecuTorchError, load

HEAD = len(MAGIC) + 32


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("payload") / "net.pte"
    lowered(torch.export.export(cnn(), (torch.randn(1, 3, 8, 8),)), path)
    return path


@pytest.fixture(scope="module")
def payload(file):
    (delegate,) = load(file).delegates
    return delegate.payload.to_bytes()


def damaged(data, rng):
    """`data` with a bit flipped, a byte changed, cut off, or with a run of bytes gone."""
    at, out = rng.randrange(len(data)), bytearray(data)
    match rng.randrange(4):
        case 0:
            out[at] ^= 1 << rng.randrange(8)
        case 1:
            out[at] = (out[at] + rng.randrange(1, 256)) % 256
        case 2:
            del out[at:]
        case 3:
            del out[at : at + rng.randrange(1, 64)]
    return bytes(out)


def sealed(body):
    return MAGIC + hashlib.sha256(body).digest() + body


def test_a_payload_is_read_as_it_was_written(payload):
    assert read_payload(payload, "delegate 0").to_bytes() == payload


def test_a_graph_is_stored_behind_the_image(payload):
    bare = read_payload(payload, "delegate 0")
    kept = replace(bare, graph=b"any bytes").to_bytes()
    assert read_payload(kept, "delegate 0").graph == b"any bytes"
    assert len(kept) == len(payload) + len(b"any bytes")


@pytest.mark.parametrize("count", [-1, 10**9, "1", None])
def test_a_graph_of_an_impossible_size_is_refused(payload, count):
    body = payload[HEAD:]
    (size,) = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + size])
    text = json.dumps({**header, "graph": count}).encode()
    forged = struct.pack("<I", len(text)) + text + body[4 + size :]
    with pytest.raises(DelegateError, match=r"^delegate 0: "):
        read_payload(sealed(forged), "delegate 0")


def test_every_damage_of_a_payload_is_refused(payload):
    rng = random.Random(0)
    for _ in range(2500):
        with pytest.raises(DelegateError, match=r"^delegate 0: (damaged|begins with)"):
            read_payload(damaged(payload, rng), "delegate 0")


def test_a_forged_payload_is_read_or_refused_with_a_reason(payload):
    """Damage below a digest that fits: what a writer with a fault, or an enemy, could make."""
    rng, body = random.Random(1), payload[HEAD:]
    (size,) = struct.unpack_from("<I", body)
    refused = 0
    for _ in range(600):
        front = damaged(body[: 4 + size + 2000], rng)
        try:
            read_payload(sealed(front + body[4 + size + 2000 :]), "delegate 0")
        except DelegateError as error:
            refused += 1
            assert str(error).startswith("delegate 0: ")
    assert refused > 300


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arguments": 1}, "position 1 of 1 arguments"),
        ({"inputs": []}, "0 inputs, the image has 1"),
        ({"inputs": 3}, "malformed header"),
    ],
)
def test_headers_that_contradict_the_image_are_refused(payload, change, reason):
    body = payload[HEAD:]
    (size,) = struct.unpack_from("<I", body)
    text = json.dumps({**json.loads(body[4 : 4 + size]), **change}).encode()
    with pytest.raises(DelegateError, match=reason):
        read_payload(sealed(struct.pack("<I", len(text)) + text + body[4 + size :]), "delegate 0")


def test_a_file_with_a_damaged_delegate_is_refused_and_others_run(file, tmp_path):
    data, rng = bytearray(file.read_bytes()), random.Random(2)
    start = data.index(MAGIC)
    (delegate,) = load(file).delegates
    length = len(delegate.payload.to_bytes())
    path = tmp_path / "damaged.pte"
    for _ in range(200):
        at = start + rng.randrange(length)
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        with pytest.raises(ExecuTorchError, match=r"delegate 0: (damaged|begins with)"):
            load(path)
    (found,) = load(file)(torch.randn(1, 3, 8, 8))
    assert found.shape == (1, 5)


def test_errors_of_delegates_are_systola_errors():
    assert issubclass(ExecuTorchError, SystolaError) and issubclass(DelegateError, SystolaError)

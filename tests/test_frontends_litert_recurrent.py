"""Recurrent layers of LiteRT files: what LiteRT computes, and what the NPU makes of it."""

import numpy as np
import pytest
import torch
from litert_files import LiteRtFile, options, run_litert

import systola
from sw.frontends.litert import load_litert
from sw.frontends.litert.errors import LiteRtError

STEPS, BATCH, WIDTH, HIDDEN = 6, 2, 5, 4
RNG = np.random.default_rng(3)


def weights(file, shape, *, hybrid):
    """A constant; hybrid: of int8 with a scale."""
    w = (RNG.normal(size=shape) * 0.4).astype(np.float32)
    if not hybrid:
        return file.constant(w)
    scale = np.float32(np.abs(w).max() / 127)
    return file.constant(np.round(w / scale).astype(np.int8), scale=scale)


def state(file):
    tensor = file.tensor((BATCH, HIDDEN))
    file.graph.tensors[tensor].isVariable = True
    return tensor


def shapes(*, major):
    lead = (STEPS, BATCH) if major else (BATCH, STEPS)
    return (*lead, WIDTH), (*lead, HIDDEN)


def lstm(*, major=False, clip=0.0, hybrid=False, without=(), extra=None, activation=4):
    """A file with an LSTM. without: operands that are left out; extra: one that is given."""
    file = LiteRtFile()
    given, made = shapes(major=major)
    operands = [file.input(given)]
    operands += [weights(file, (HIDDEN, WIDTH), hybrid=hybrid) for _ in range(4)]
    operands += [weights(file, (HIDDEN, HIDDEN), hybrid=hybrid) for _ in range(4)]
    operands += [-1] * 3
    operands += [file.constant((RNG.normal(size=HIDDEN) * 0.3).astype(np.float32)) for _ in "ifco"]
    operands += [-1, -1, state(file), state(file), *[-1] * 4]
    for i in without:
        operands[i] = -1
    if extra is not None:
        operands[extra] = file.constant(np.ones(HIDDEN, np.float32))
    y = file.tensor(made)
    how = options(
        "UnidirectionalSequenceLSTM", fusedActivationFunction=activation, cellClip=clip,
        timeMajor=major,
    )  # fmt: skip
    file.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], how)
    file.output(y)
    return file.data()


def rnn(*, major=False, activation=4, hybrid=False):
    file = LiteRtFile()
    given, made = shapes(major=major)
    operands = [file.input(given), weights(file, (HIDDEN, WIDTH), hybrid=hybrid)]
    operands.append(weights(file, (HIDDEN, HIDDEN), hybrid=hybrid))
    operands += [file.constant((RNG.normal(size=HIDDEN) * 0.3).astype(np.float32)), state(file)]
    y = file.tensor(made)
    how = options("SequenceRNN", fusedActivationFunction=activation, timeMajor=major)
    file.operator("UNIDIRECTIONAL_SEQUENCE_RNN", operands, [y], how)
    file.output(y)
    return file.data()


CASES = {
    "lstm": lambda: lstm(),
    "time-major": lambda: lstm(major=True),
    "clip": lambda: lstm(clip=0.3),
    "clip beyond reach": lambda: lstm(clip=10.0),
    "hybrid": lambda: lstm(hybrid=True),
    "rnn": lambda: rnn(),
    "relu": lambda: rnn(activation=1, major=True),
    "hybrid rnn": lambda: rnn(hybrid=True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_computes_what_litert_does(case):
    data = CASES[case]()
    x = RNG.normal(size=shapes(major=case in ("time-major", "relu"))[0]).astype(np.float32)
    (exact,) = run_litert(data, [x])
    model = load_litert(data)
    found = model.module(torch.from_numpy(x)).numpy()
    # LiteRT rounds the inputs of hybrid products at run time.
    assert np.abs(found - exact).max() < (0.02 if "hybrid" in case else 1e-6)


@pytest.mark.parametrize("case", ["lstm", "clip", "rnn"])
def test_a_layer_runs_on_the_npu(case):
    data = CASES[case]()
    model = load_litert(data)
    calls = [(torch.from_numpy(RNG.normal(size=(BATCH, STEPS, WIDTH)).astype(np.float32)),)]
    calls += [(torch.randn(BATCH, STEPS, WIDTH),) for _ in range(5)]
    program = systola.compile(
        model.module, model.example, systola.preset("tiny"), calibration=calls
    )
    (found,) = program.outputs(systola.run(program.image, program.inputs(*calls[0])))
    (exact,) = run_litert(data, [calls[0][0].numpy()])
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.999


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: lstm(without=(1, 5, 12)), "gates without weights or biases"),
        (lambda: lstm(extra=9), "it has peepholes"),
        (lambda: lstm(extra=16), "it has a projection"),
        (lambda: lstm(extra=20), "it has norms of gates"),
        (lambda: lstm(activation=1), "it has another activation than TANH"),
    ],
)
def test_what_is_no_plain_layer_is_refused(data, reason):
    with pytest.raises(
        LiteRtError, match=rf"operator 0 \(UNIDIRECTIONAL_SEQUENCE_LSTM\).*{reason}"
    ):
        load_litert(data())

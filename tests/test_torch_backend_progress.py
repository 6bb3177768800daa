"""What is said on stderr while a model is compiled."""

import io
import re
import sys

import pytest
import torch
from torch import nn
from torch_backend_helpers import compiled

from sw.runtime import progress
from sw.runtime.progress import announced


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("wanted", "terminal", "lines"),
    [(None, True, 2), (None, False, 0), (True, False, 2), (False, True, 0)],
)
def test_lines_are_for_terminals_or_for_who_wants_them(wanted, terminal, lines, monkeypatch):
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with announced("compiling x", wanted) as end:
        end.result = "found in the cache"
    said = out.getvalue().splitlines()
    assert len(said) == lines
    if lines:
        assert said[0] == "systola: compiling x …"
        assert re.fullmatch(r"systola: compiling x: found in the cache in \d+\.\d s", said[1])


def test_what_takes_long_is_said_without_a_terminal_too(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with announced("compiling x"):
        while "compiling x …" not in out.getvalue():
            pass
    assert "systola: compiling x: done in" in out.getvalue()


def test_an_error_ends_the_line(capsys):
    with pytest.raises(ValueError, match="no"), announced("compiling x", True):
        raise ValueError("no")
    assert "systola: compiling x: stopped in" in capsys.readouterr().err


@torch.no_grad()
def test_each_part_of_a_model_has_its_lines(capsys):
    fast = compiled(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), progress=True)
    fast(torch.ones(2, 8))
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if line.startswith("systola: ")]
    assert said[0] == "systola: compiling npu_0 (module 0), 2 operators …"
    assert said[1].startswith("systola: compiling npu_0 (module 0), 2 operators: done in ")

"""What is refused before a long run begins: workloads too large, reports that cannot be written."""

import re
import time

import pytest
from cli_helpers import systola
from test_cli_commands import refused

from sw.models import kernels
from sw.models.kernels import KernelError, kernel, kernel_names
from sw.runtime.report import ReportError, check_json


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["matmul", "--shape", "65535x65535x65535"],
            "matmul: tensor a of 4,294,836,225 bytes is above the limit of 268,435,456; use a "
            "smaller shape",
        ),
        (
            ["conv2d", "--shape", "h=4,w=4,p=60000"],
            "conv2d: tensor y of 1,843,261,440,512 bytes is above the limit of 268,435,456; use a "
            "smaller shape",
        ),
        (
            ["matmul", "--shape", "8192x8192x8192"],
            "matmul: 549,755,813,888 MACs are above the limit of 68,719,476,736; use a smaller "
            "shape",
        ),
        (
            ["conv2d", "--shape", "h=1,w=5,kh=1,kw=3,s=3,p=1"],
            "y: the only windows that fit read padding alone: size 1 with pad_top=1, pad_bottom=1, "
            "window 1, stride 3; use a smaller stride or less padding",
        ),
    ],
)
def test_workload_that_cannot_run_is_refused_at_once(arguments, message):
    began = time.monotonic()
    assert refused("sim", *arguments, "-d", "golden", "-c", "tiny") == message
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("name", kernel_names())
def test_limits_count_what_the_kernel_is(name, monkeypatch):
    work = kernel(name)
    largest = max(
        t.size * (4 if n in work.graph.outputs else t.nbytes // t.size)
        for n, t in work.graph.tensors.items()
        if n in (*work.graph.inputs, *work.graph.outputs, "weight")
    )
    for limit, value in (("MAX_MACS", work.macs), ("MAX_BYTES", largest)):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, limit, value)
            kernel(name)
            patch.setattr(kernels, limit, value - 1)
            message = rf"{value:,} .*above the limit of {value - 1:,}; use a smaller shape$"
            with pytest.raises(KernelError, match=message):
                kernel(name)


@pytest.mark.parametrize(
    "command",
    [
        ["sim", "matmul"],
        ["run", "digits"],
        ["verify", "add"],
        ["simspeed"],
        ["goldenspeed", "digits"],
        ["exec", "none"],
    ],
)
def test_report_that_cannot_be_written_is_refused_before_the_run(command, tmp_path):
    assert refused(*command, "--json", tmp_path) == (
        f"--json {tmp_path}: cannot write: Is a directory"
    )


def test_asking_leaves_files_as_they_were(tmp_path):
    path = tmp_path / "new" / "r.json"
    check_json(path)
    assert not path.exists()
    path.write_text("{}")
    check_json(path)
    assert path.read_text() == "{}"
    with pytest.raises(ReportError, match=rf"^--json {re.escape(str(path))}/x: cannot write: "):
        check_json(path / "x")


def test_a_refused_run_keeps_the_last_report(tmp_path):
    path = tmp_path / "r.json"
    path.write_text("{}")
    assert systola("sim", "nosuch", "--json", path)[0] == 2
    assert path.read_text() == "{}"

"""Gradients and `torch.device("systola")`. Each test is a process of its own.

Autograd counts the devices at the first `backward()` of a process, and other tests call it.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

REGISTERED = """
    import torch, systola
    systola.register_torch_device()
    torch.systola.set_options(config="tiny")
"""
NO_GRADIENTS = (
    "the NPU computes no gradients: this value comes from {} on device systola, which is for "
    "inference. To train, run the model itself on the CPU"
)


def run(*code: str) -> str:
    """The last line that a process prints."""
    done = subprocess.run(
        [sys.executable, "-c", "".join(textwrap.dedent(part) for part in code)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()


def test_backward_says_that_there_are_no_gradients() -> None:
    code = """
        model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()).to("systola")
        found = model(torch.randn(4, 16).to("systola"))
        assert found.requires_grad
        try:
            found.sum().backward()
        except systola.SystolaError as error:
            print(error)
    """
    assert run(REGISTERED, code) == NO_GRADIENTS.format("aten::sum")


def test_copies_have_gradients() -> None:
    code = """
        x = torch.ones(3, requires_grad=True)
        x.to("systola")[1:].cpu().sum().backward()
        print(x.grad.tolist())
    """
    assert run(REGISTERED, code) == "[0.0, 1.0, 1.0]"


def test_a_compiled_model_has_no_gradients() -> None:
    code = """
        model = torch.nn.Linear(16, 8).to("systola")
        compiled = torch.compile(model, backend="systola", options={"config": "tiny"})
        try:
            compiled(torch.randn(4, 16).to("systola")).backward(torch.ones(4, 8, device="systola"))
        except systola.SystolaError as error:
            print(str(error).partition(":")[0])
    """
    assert run(REGISTERED, code) == "the NPU computes no gradients"


@pytest.mark.parametrize("call", ["y.backward()", "torch.autograd.grad(y, x)"])
def test_a_device_that_came_after_the_first_backward_says_so(call: str) -> None:
    """PyTorch's own words for it are an internal assertion."""
    before = """
        import torch
        torch.ones(1, requires_grad=True).sum().backward()
    """
    code = f"""
        x = torch.ones(3, requires_grad=True)
        y = x.to("systola").cpu().sum()
        try:
            {call}
        except systola.SystolaError as error:
            print(error)
    """
    assert run(before, REGISTERED, code) == (
        "systola: PyTorch's autograd began in this process before the device was registered, and "
        "it counts the devices once, when it begins; call systola.register_torch_device() before "
        "the first backward() of the process"
    )


@pytest.mark.parametrize("time", range(4))
def test_a_process_ends_while_autograds_thread_is_late(time: int) -> None:
    """The thread frees an object of Python behind its last step: after Python's end it would abort.

    SCHED_IDLE on the CPU of the main thread makes it late, about every second time.
    """
    code = """
        import os
        from pathlib import Path
        def gradients():
            x = torch.ones(3, requires_grad=True)
            x.to("systola").cpu().sum().backward()
            return x.grad.tolist()
        gradients()
        names = {int(t.name): (t / "comm").read_text() for t in Path("/proc/self/task").iterdir()}
        threads = [t for t, name in names.items() if name.startswith("pt_autograd")]
        one = {min(os.sched_getaffinity(0))}
        os.sched_setaffinity(0, one)
        for thread in threads:
            os.sched_setaffinity(thread, one)
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        print(len(threads), gradients())
    """
    assert run(REGISTERED, code) == "1 [1.0, 1.0, 1.0]"


def test_other_errors_of_autograd_stay_as_they_are() -> None:
    code = """
        try:
            torch.ones(2).sum().backward()
        except RuntimeError as error:
            print(type(error).__name__, str(error)[:30])
    """
    assert run(REGISTERED, code) == "RuntimeError element 0 of tensors does not"

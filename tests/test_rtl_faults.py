"""Faults of the compute engines on the RTL: named as golden names them, and gone afterwards.

Every fault is followed by a program on the same simulation whose result must be right.
"""

from typing import Any

import pytest
from golden_programs import image
from rtl_kernel_cases import same

from golden_model import Machine, MachineFault
from spec import Instruction, NpuConfig, Opcode, preset
from spec.isa import Alu, DType, Reduce, Space
from spec.program import REGION_INPUT, REGION_OUTPUT
from sw.compiler import compile_graph
from sw.models.kernels import kernel, parse_shape
from sw.runtime.rtl import DeviceFault, RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]  # with a build on a busy machine

MATRIX, DEPTHWISE, VECTOR = Opcode.MATRIX, Opcode.DEPTHWISE, Opcode.VECTOR
CONFIGS = ("tiny", "odd")


@pytest.fixture(scope="session")
def device(request):
    """The preset's simulator, one for all these tests."""
    with RtlDevice(preset(request.param)) as opened:
        yield opened


on = pytest.mark.parametrize


class Job:
    """A program with inputs and golden's outputs."""

    def __init__(self, config: NpuConfig, name: str, shape: str) -> None:
        work = kernel(name, parse_shape(shape, name), seed=3)
        self.name, self.inputs = name, work.inputs
        self.image = compile_graph(work.graph, config, name=name)
        self.want = Machine(config).run(self.image, self.inputs)

    def start(self, device: RtlDevice) -> None:
        device.load(self.image)
        for name, array in self.inputs.items():
            device.write(name, array)

    def passes(self, device: RtlDevice, after: str) -> None:
        # No change of the memory: its reset would hide what the soft reset after a fault leaves.
        same(device, self.image, self.inputs, self.want, None, f"{self.name} after {after}")


@pytest.fixture(scope="module")
def jobs(device):
    """Small programs that together use every engine, and one with many folds and both halves."""
    config = device.config
    return (
        Job(config, "conv2d", "h=5,w=5,c=7,oc=9,k=3,p=1"),
        Job(config, "matmul", "40x400x40"),
        Job(config, "depthwise_conv2d", "h=12,w=12,c=30,k=3,p=1"),
    )


# "spad" and "acc" stand for the last legal address; each case leaves the memory by one or more.
CASES: dict[str, tuple[Opcode, dict[str, Any]]] = {
    "matrix act": (MATRIX, {"act_base": "spad", "rows": 2}),
    "matrix act far": (MATRIX, {"act_base": (1 << 24) - 1}),
    "matrix wgt": (MATRIX, {"wgt_base": "spad", "cols": 2}),
    "matrix wgt below": (MATRIX, {"wgt_row": -1, "rows": 2}),
    "matrix acc": (MATRIX, {"acc_base": "acc", "loop": [{"count": 2, "acc": 1}]}),
    "matrix acc far": (MATRIX, {"acc_base": (1 << 16) - 1}),
    "matrix act later": (MATRIX, {"act_base": "spad", "loop": [{"count": 40, "act": 1}]}),
    "depthwise act": (DEPTHWISE, {"act_base": "spad", "lanes": 2}),
    "depthwise act later": (
        DEPTHWISE,
        {"act_base": "spad", "act_col": 1, "acc_col": 1, "outputs": 30},
    ),
    "depthwise wgt": (DEPTHWISE, {"wgt_base": "spad", "kernel_rows": 2, "wgt_row": 1}),
    "depthwise acc": (DEPTHWISE, {"acc_base": "acc", "acc_col": 1, "outputs": 9}),
    "vector a": (VECTOR, {"a_base": "spad", "a_type": DType.I16}),
    "vector a of acc": (
        VECTOR,
        {
            "a_space": Space.ACC,
            "a_type": DType.I32,
            "a_base": "acc",
            "loop": [{"count": 2, "a": 1}],
        },
    ),
    "vector b": (VECTOR, {"alu": Alu.ADD, "b_base": "spad", "b_type": DType.I32}),
    "vector o": (VECTOR, {"o_base": "spad", "lanes": 2}),
    "vector o to acc": (
        VECTOR,
        {
            "o_space": Space.ACC,
            "o_type": DType.I32,
            "o_base": "acc",
            "loop": [{"count": 2, "o": 1}],
        },
    ),
    "vector o later": (VECTOR, {"o_base": "spad", "loop": [{"count": 30, "o": 1}]}),
}


@on("device", CONFIGS, indirect=True)
@on("case", CASES)
def test_addresses_outside_the_chip(
    device: RtlDevice, jobs: tuple[Job, Job, Job], case: str
) -> None:
    config = device.config
    last = {"spad": config.spad_bytes - 1, "acc": config.acc_vectors - 1}
    opcode, values = CASES[case]
    values = {k: last[v] if isinstance(v, str) else v for k, v in values.items()}
    filler = Instruction(Opcode.LOAD, {"fill": 1, "run": 4})
    program = image(config, [filler, Instruction(opcode, values)])
    with pytest.raises(MachineFault) as golden:
        Machine(config).run(program, {}, check=False)
    wanted = (golden.value.cause.name, golden.value.engine, golden.value.index)
    assert wanted == ("CHIP_ADDRESS", opcode.name.lower(), 2)
    device.load(program)
    with pytest.raises(DeviceFault) as fault:
        device.run()
    assert (fault.value.cause, fault.value.engine, fault.value.instruction) == wanted
    assert f"CHIP_ADDRESS in {wanted[1]}, instruction 2: {wanted[1]} " in str(fault.value)
    jobs[2 if opcode is DEPTHWISE else 0].passes(device, case)


@on("device", CONFIGS, indirect=True)
def test_the_last_addresses_of_the_chip_are_usable(
    device: RtlDevice, jobs: tuple[Job, Job, Job]
) -> None:
    """Or the faults above could come from a bound that is one too low."""
    config = device.config
    spad, acc = config.spad_bytes, config.acc_vectors
    wide = {"a_type": DType.I32, "lanes": 2, "alu": Alu.ADD, "b_type": DType.I32}
    summed = {"reduce": Reduce.SUM, "reduce_loops": 1, "loop": [{"count": 2, "o": -8}]}
    for opcode, values in (
        (MATRIX, {"act_base": spad - 2, "rows": 2, "wgt_base": spad - 3, "cols": 3}),
        (MATRIX, {"wgt_base": spad - 2, "cols": 2, "acc_base": acc - 1}),
        (DEPTHWISE, {"act_base": spad - 2, "wgt_base": spad - 2, "lanes": 2, "acc_base": acc - 1}),
        (VECTOR, {**wide, "a_base": spad - 8, "b_base": spad - 8, "o_base": spad - 2}),
        (VECTOR, {"o_space": Space.ACC, "o_type": DType.I32, "o_base": acc - 1}),
        (VECTOR, {"a_space": Space.ACC, "a_type": DType.I32, "a_base": acc - 1}),
        # Steps that lie outside the input read nothing.
        (MATRIX, {"act_base": 1 << 20, "y0": -1}),
        (DEPTHWISE, {"act_base": 1 << 20, "y0": -1}),
        (VECTOR, {"a_base": 1 << 20, "y0": -1}),
        # Nor is an address checked that nothing uses: a parameter entry, a step without result.
        (VECTOR, {"param_base": (1 << 16) - 1}),
        (VECTOR, {**summed, "o_base": spad + 6, "lanes": 2}),
    ):
        program = image(config, [Instruction(opcode, values)])
        Machine(config).run(program, {}, check=False)
        device.load(program)
        device.run()
    jobs[0].passes(device, "the last addresses")


@on("device", CONFIGS, indirect=True)
@on(
    ("victim", "region", "parts"),
    [(1, REGION_INPUT, 16), (1, REGION_OUTPUT, 6), (2, REGION_INPUT, 8), (2, REGION_OUTPUT, 4)],
    ids=["inputs", "outputs", "depthwise inputs", "depthwise outputs"],
)
def test_a_fault_while_all_engines_work_leaves_nothing(
    device: RtlDevice, jobs: tuple[Job, Job, Job], victim: int, region: int, parts: int
) -> None:
    """A memory error at places all over a region: some stop the array in mid-wavefront."""
    size = jobs[victim].image.region_bytes(region)
    engine = "store" if region == REGION_OUTPUT else "load"
    for part in range(parts):
        offset = (size - 1) * part // (parts - 1)
        after = f"an error at byte {offset} of region {region}"
        jobs[victim].start(device)
        device.inject_errors(region, offset, 1)
        with pytest.raises(DeviceFault) as fault:
            device.run()
        assert (fault.value.cause, fault.value.engine) == ("AXI_ERROR", engine), after
        # In turn: which program comes next decides what a rest of this one would spoil.
        for job in (jobs[0], jobs[victim])[:: 1 if part % 2 else -1]:
            job.passes(device, after)

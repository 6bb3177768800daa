"""ExecuTorch: lower a model to a `.pte` file for the NPU, and run such files.

    from executorch.exir import to_edge_transform_and_lower
    from systola.executorch import SystolaPartitioner, load

    edge = to_edge_transform_and_lower(exported, partitioner=[SystolaPartitioner()])
    edge.to_executorch().save("net.pte")
    net = load("net.pte", device="rtl", verify=True)
    (logits,) = net(images)
    print(net.report)

The package is an extra: `pip install 'systola[executorch]'`.
"""

from sw.compiler.frontend.quantization.quantizer import SystolaQuantizer
from sw.frontends.delegates.report import DelegateReport
from sw.frontends.executorch.errors import ExecuTorchError
from sw.frontends.executorch.partitioner import SystolaBackend, SystolaPartitioner
from sw.frontends.executorch.program import Program, load, register

__all__ = [
    "DelegateReport",
    "ExecuTorchError",
    "Program",
    "SystolaBackend",
    "SystolaPartitioner",
    "SystolaQuantizer",
    "load",
    "register",
]

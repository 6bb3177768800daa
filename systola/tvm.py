"""TVM: what the NPU takes of a Relax module as programs that TVM's machine calls.

    import systola.tvm

    offloaded = systola.tvm.offload(module, inputs=images)
    (logits,) = offloaded.machine()["main"](tvm.runtime.tensor(images))
    print(offloaded.report())
    offloaded.save("net.so")  # systola.tvm.load opens it, in another process

The package is an extra: `pip install 'systola[tvm]'`.
"""

from sw.frontends.delegates.report import DelegateReport
from sw.frontends.tvm.errors import TvmError
from sw.frontends.tvm.offloaded import Library, Offloaded, load
from sw.frontends.tvm.offloading import offload

__all__ = ["DelegateReport", "Library", "Offloaded", "TvmError", "load", "offload"]

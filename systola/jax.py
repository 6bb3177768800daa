"""JAX functions on the NPU.

    import systola.jax

    fast = systola.jax.compile(function, x, config="default", device="golden")
    y = fast(x)
    print(fast.report)

JAX exports the function as StableHLO, which becomes a PyTorch module (`sw/frontends/stablehlo/`);
that is compiled and run as by `torch.compile(module, backend="systola")`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from spec import SystolaError

if TYPE_CHECKING:
    import torch

    from sw.torch_backend.report import CompileReport


class JaxError(SystolaError, TypeError):
    """A function, or arguments, that cannot be compiled or called."""


def compile(
    function: Callable[..., Any],
    *args: Any,
    example_keywords: "dict[str, Any] | None" = None,
    calibration: "Iterable[Any] | None" = None,
    **options: Any,
) -> "CompiledFunction":
    """Compile a JAX function for arguments like the examples.

    function: of JAX arrays; `jax.jit` or not. args, example_keywords: of a call, in pytrees; they
    calibrate, unless `calibration` has calls: tuples of the arguments. options: those of
    `torch.compile(…, backend="systola")`: config, device, policy, fallback, verify, … `JaxError`
    for what cannot be exported, `StableHloError` for operations that are not taken, and
    `SystolaError` for options that do not exist.
    """
    return CompiledFunction(function, args, example_keywords or {}, calibration, options)


class CompiledFunction:
    """Takes arguments like the examples, of JAX or NumPy, and returns what the function returns."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        calibration: "Iterable[Any] | None",
        options: dict[str, Any],
    ) -> None:
        from sw.compiler.frontend.capture import capture
        from sw.compiler.frontend.threads import one_thread
        from sw.frontends.stablehlo import load_stablehlo
        from sw.torch_backend.entry import compiled_graph

        self._exported = _exported(function, args, keywords)
        model = load_stablehlo(bytes(self._exported.mlir_module_serialized))
        example = self._tensors(args, keywords)
        calls = [example]
        if calibration is not None:
            calls = [self._tensors(_arguments(call), {}) for call in calibration]
        with one_thread():
            self._captured = capture(model.module, example)
        flat = [self._captured.flat(call) for call in calls]
        self._graph = compiled_graph(
            self._captured.graph, flat[0], options={**options, "calibration": flat}
        )
        with one_thread():
            self._graph.prepare(*self._captured.flat(example))

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """What the function returns for these arguments, as JAX arrays."""
        import jax
        import torch

        with torch.no_grad():
            made = self._graph(*self._captured.flat(self._tensors(args, keywords)))
        results = torch.utils._pytree.tree_leaves(made)
        arrays = [
            jax.numpy.asarray(tensor.detach().numpy(), dtype=kind.dtype)
            for tensor, kind in zip(results, self._exported.out_avals, strict=True)
        ]
        return jax.tree.unflatten(self._exported.out_tree, arrays)

    @property
    def report(self) -> "CompileReport":
        """What ran where, and why, over all calls so far."""
        from sw.torch_backend.report import make_report

        return make_report([self._graph])

    def _tensors(self, args: Sequence[Any], keywords: dict[str, Any]) -> "tuple[torch.Tensor, ...]":
        """The arguments that the function reads, as tensors."""
        import jax

        leaves, tree = jax.tree.flatten((tuple(args), dict(keywords)))
        kinds = self._exported.in_avals
        if tree != self._exported.in_tree:
            raise JaxError(f"arguments {tree}: compiled for {self._exported.in_tree}")
        for i, (leaf, kind) in enumerate(zip(leaves, kinds, strict=True)):
            if isinstance(leaf, jax.core.Tracer):
                raise JaxError("called inside of a transformation of JAX: call it with arrays")
            if jax.numpy.shape(leaf) != kind.shape:
                raise JaxError(
                    f"array {i} of the arguments has shape {list(jax.numpy.shape(leaf))}: compiled "
                    f"for {list(kind.shape)}; compile the function for this shape too"
                )
        kept = self._exported.module_kept_var_idx
        return tuple(_tensor(leaves[i], kinds[i].dtype) for i in kept)


def _exported(function: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    try:
        import jax
    except ImportError as error:
        raise JaxError(f"JAX is needed ({error}): pip install 'systola[jax]'") from None
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    try:
        return jax.export.export(jitted)(*args, **keywords)
    except SystolaError:
        raise
    except Exception as error:  # whatever the user's function or JAX raises
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise JaxError(f"JAX cannot export it: {type(error).__name__}: {first}") from error


def _arguments(call: Any) -> tuple[Any, ...]:
    return tuple(call) if isinstance(call, tuple | list) else (call,)


def _tensor(leaf: Any, dtype: Any) -> "torch.Tensor":
    import numpy as np
    import torch

    array = np.array(leaf, dtype=dtype)
    if dtype.kind not in "biuf":  # bfloat16, which NumPy has from elsewhere
        array = array.astype(np.float32)
    if dtype.kind == "u" and dtype.itemsize > 1:
        array = array.astype(np.int64 if dtype.itemsize > 2 else np.int32)
    tensor = torch.from_numpy(array)
    return tensor.float() if tensor.is_floating_point() else tensor

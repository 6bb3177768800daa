"""A Relax function with calls of programs in place of regions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from sw.frontends.delegates.compiling import Compiled
from sw.frontends.tvm.errors import tvm
from sw.frontends.tvm.records import Call, Function, Values
from sw.frontends.tvm.survey import Survey


def offloaded_module(found: Survey, programs: Sequence[Compiled], session: str) -> Any:
    """The module with a call of the packed function `session` in place of each region.

    It is called with the program's payload, the inputs and room for the outputs. What is computed
    from constants is constant.
    """
    function = found.function
    gone = found.folded.union(*(program.region.own for program in programs))
    return _module(_Writer(function, found.constants), programs, session, gone, function.results)


def observed_module(function: Function, names: Sequence[str]) -> Any:
    """The module with these values as the function's results."""
    return _module(_Writer(function, {}), (), "", frozenset(), tuple(names))


def _module(
    writer: "_Writer",
    programs: Sequence[Compiled],
    session: str,
    gone: Collection[int],
    results: Any,
) -> Any:
    package, function = tvm(), writer.source
    made = writer.function(programs, session, gone, results)
    own = function.module
    target = own.get_global_var(function.name)
    functions = {var: made if var.same_as(target) else f for var, f in own.functions_items()}
    module = package.IRModule(functions, attrs=own.attrs)
    return package.relax.transform.DeadCodeElimination()(module)


class _Writer:
    """values: the expression of each value so far, by name. constants: values that are known."""

    def __init__(self, source: Function, constants: Mapping[str, Tensor]) -> None:
        self.package = tvm()
        self.relax = self.package.relax
        self.source, self.constants = source, constants
        self.builder = self.relax.BlockBuilder()
        self.values: dict[str, Any] = dict(source.expressions)

    def function(
        self, programs: Sequence[Compiled], session: str, gone: Collection[int], results: Any
    ) -> Any:
        """The function with programs, without the calls at the positions `gone`."""
        source, builder = self.source, self.builder
        original = source.module[source.name]
        calls = [call for i, call in enumerate(source.calls) if i not in gone]
        with builder.function(source.name, list(original.params)):
            with builder.dataflow():
                self._body(calls, programs, session)
                found = builder.emit_output(self._structure(results))
            builder.emit_func_output(found)
        made = builder.get()[source.name]
        return made.with_attrs(original.attrs) if original.attrs is not None else made

    def _body(self, calls: Sequence[Call], programs: Sequence[Compiled], session: str) -> None:
        """Everything once its operands are there: a program waits for all of its inputs."""
        todo: list[Any] = [*programs, *calls]
        while todo:
            later = []
            for each in todo:
                reads = each.inputs if isinstance(each, Compiled) else each.reads
                if not all(name in self.values or name in self.constants for name in reads):
                    later.append(each)
                elif isinstance(each, Compiled):
                    self._program(each, session)
                else:
                    self._call(each)
            assert len(later) < len(todo), "regions are convex"
            todo = later

    def _value(self, name: str) -> Any:
        if name not in self.values:
            self.values[name] = self.relax.const(self.constants[name].detach().numpy())
        return self.values[name]

    def _call(self, call: Call) -> None:
        args = [
            self._operand(given, own)
            for given, own in zip(call.operands, call.expression.args, strict=True)
        ]
        old = call.expression
        made = self.package.ir.Call(old.op, args, old.attrs, list(old.ty_args or []), old.span)
        self._bind(call.result, self.builder.emit(made, name_hint=call.name))

    def _operand(self, given: Any, own: Any) -> Any:
        if isinstance(given, str):
            return self._value(given)
        return self._structure(given.names) if isinstance(given, Values) else own

    def _structure(self, names: Any) -> Any:
        if isinstance(names, str):
            return self._value(names)
        return self.relax.Tuple([self._structure(each) for each in names])

    def _bind(self, result: Any, value: Any) -> None:
        if isinstance(result, str):
            self.values[result] = value
            return
        for i, part in enumerate(result):
            self._bind(part, self.builder.emit(self.relax.TupleGetItem(value, i)))

    def _program(self, program: Compiled, session: str) -> None:
        types = [self.source.types[name] for name in program.outputs]
        kinds = [self.relax.TensorType(kind.shape, kind.dtype) for kind in types]
        payload = np.frombuffer(program.payload.to_bytes(), np.uint8)
        operands = [self.relax.const(payload), *map(self._value, program.inputs)]
        call = self.relax.op.call_dps_packed(
            session, self.relax.Tuple(operands), kinds if len(kinds) > 1 else kinds[0]
        )
        made = self.builder.emit(call, name_hint=program.payload.name)
        self._bind(program.outputs if len(kinds) > 1 else program.outputs[0], made)


def arrays(value: Any) -> list[Any]:
    """What a function of TVM returned, as arrays."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [array for each in value for array in arrays(each)]

"""A Relax function as records; this file alone takes expressions of TVM apart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from spec.names import did_you_mean
from sw.frontends.tvm.errors import TvmError, first_line, tvm
from sw.frontends.tvm.records import Call, Function, Type, Values


def parameters_of(module: Any, name: str) -> tuple[str, ...]:
    """The names of a function's parameters; `TvmError` where there is no such function."""
    return tuple(param.name for param in _function(module, name).params)


def read(module: Any, name: str, shapes: Mapping[str, Sequence[int]]) -> Function:
    """The function `name` of an IRModule, which is not changed.

    shapes: of parameters, by name: sizes that the function leaves open are those.
    """
    package = tvm()
    function = _function(module, name)
    bound = _symbols(function, shapes, name)
    relax = package.relax
    try:
        if bound:
            module = relax.transform.BindSymbolicVars(bound, name)(module)
        module = relax.transform.Normalize()(module)
        module = relax.transform.ConvertToDataflow(min_size=1)(module)
    except Exception as error:  # whatever TVM finds wrong with the module
        raise TvmError(f"{name}: TVM refuses the function: {first_line(error)}") from error
    return _Reader(package, module, name).function()


def _function(module: Any, name: str) -> Any:
    package = tvm()
    if not isinstance(module, package.IRModule):
        raise TvmError(
            f"{type(module).__name__} given: must be a tvm.IRModule, as "
            "tvm.relax.frontend.torch.from_exported_program returns it"
        )
    known = {
        var.name_hint: function
        for var, function in module.functions_items()
        if isinstance(function, package.relax.Function)
    }
    if name not in known:
        raise TvmError(
            f"the module has no Relax function {name!r}{did_you_mean(name, known)}; it has "
            f"{', '.join(known) or 'none'}"
        )
    return known[name]


def _symbols(function: Any, shapes: Mapping[str, Sequence[int]], name: str) -> dict[str, int]:
    """The sizes that the shapes of parameters give to the function's symbolic variables."""
    found: dict[str, int] = {}
    for param in function.params:
        sizes = _sizes(param.ty)
        given = shapes.get(param.name)
        if sizes is None or given is None:
            continue
        if len(sizes) != len(given):
            raise TvmError(
                f"{name}: {list(given)} is the shape of {param.name}: it has {len(sizes)} "
                "dimensions"
            )
        for size, length in zip(sizes, given, strict=True):
            known = size if isinstance(size, int) else found.setdefault(str(size), int(length))
            if known != length:
                raise TvmError(
                    f"{name}: {list(given)} is the shape of {param.name}: must be "
                    f"{[s if isinstance(s, int) else str(s) for s in sizes]}"
                )
    return found


def _sizes(kind: Any) -> list[Any] | None:
    """Integers, and variables of TVM, of a tensor's type."""
    shape = getattr(kind, "shape", None)
    values = getattr(shape, "values", None)
    return None if values is None else [_integer(v) for v in values]


def _integer(value: Any) -> Any:
    found = getattr(value, "value", None)
    return found if isinstance(found, int) else value


class _Reader:
    def __init__(self, package: Any, module: Any, name: str) -> None:
        self.relax, self.ir, self.module, self.name = package.relax, package.ir, module, name
        self.found = _function(module, name)
        self.structures: dict[Any, Any] = {}
        self.types: dict[str, Type] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.expressions: dict[str, Any] = {}

    def function(self) -> Function:
        params = []
        for param in self.found.params:
            made = self._new(param.name, param.ty)
            if not isinstance(made, str):
                self._fail(f"parameter {param.name} is a tuple", "give tensors to the function")
            self.structures[param], self.expressions[made] = made, param
            params.append(made)
        calls = [c for binding in self._bindings() if (c := self._binding(binding)) is not None]
        return Function(
            name=self.name,
            params=tuple(params),
            calls=tuple(calls),
            results=self._structure(self.found.body.body),
            constants=self.constants,
            expressions=self.expressions,
            types=self.types,
            module=self.module,
        )

    def _fail(self, reason: str, hint: str) -> None:
        raise TvmError(f"{self.name}: {reason}\n  hint: {hint}")

    def _bindings(self) -> Iterable[Any]:
        for block in self.found.body.blocks:
            if not isinstance(block, self.relax.DataflowBlock):
                what = ", ".join(binding.var.name for binding in block.bindings)
                self._fail(
                    f"{what}: control flow, or calls with side effects, between operators",
                    "offload functions without them, and call these",
                )
            yield from block.bindings

    def _binding(self, binding: Any) -> Call | None:
        """The call that is bound; None for what only names values."""
        var, value = binding.var, getattr(binding, "value", None)
        if isinstance(value, self.ir.Call):
            return self._call(var, value)
        if value is None or (made := self._structure(value)) is None:
            self._fail(
                f"{var.name}: {type(value).__name__ if value is not None else 'MatchCast'} cannot "
                "be taken", "use calls, tuples and constants",
            )  # fmt: skip
        self.structures[var] = made
        return None

    def _structure(self, value: Any) -> Any:
        """Names, in tuples; None for what is no value."""
        if isinstance(value, self.relax.Tuple):
            parts = [self._structure(field) for field in value.fields]
            return None if None in parts else tuple(parts)
        if isinstance(value, self.relax.TupleGetItem):
            whole = self._structure(value.tuple_value)
            return None if whole is None else whole[value.index]
        if isinstance(value, self.ir.GenericConst):
            return self._constant(value)
        return self.structures.get(value)

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.types[name] = _type(value.ty)
        self.expressions[name] = value
        self.constants[name] = _tensor(value.value.numpy())
        return name

    def _call(self, var: Any, value: Any) -> Call:
        op = getattr(value.op, "name", None)
        why = ""
        if not isinstance(value.op, self.ir.Op):
            called = getattr(value.op, "name_hint", type(value.op).__name__)
            op, why = called, "calls a function; relax.transform.InlinePrivateFunctions makes one"
        result = self._new(var.name, var.ty)
        self.structures[var] = result
        return Call(
            name=var.name,
            op=str(op).removeprefix("relax."),
            operands=tuple(map(self._operand, value.args)),
            attributes={} if why else _attributes(value.attrs),
            result=result,
            expression=value,
            why=why,
        )

    def _operand(self, value: Any) -> Any:
        if isinstance(value, self.relax.ShapeExpr):
            sizes = tuple(_integer(v) for v in value.values)
            return sizes if all(isinstance(s, int) for s in sizes) else value
        if isinstance(value, self.relax.Tuple):
            made = self._structure(value)
            if made is not None:
                return Values(names=made)
            numbers = [_integer(field) for field in value.fields]
            return list(numbers) if all(isinstance(n, int) for n in numbers) else value
        number = getattr(value, "value", None)
        if isinstance(number, int | float) and not isinstance(value, self.ir.GenericConst):
            return number
        made = self._structure(value)
        if made is None:
            return value
        return made if isinstance(made, str) else Values(names=made)

    def _new(self, hint: str, kind: Any) -> Any:
        """Names of a new value, in tuples as its type has them."""
        if isinstance(kind, self.ir.TupleType):
            return tuple(self._new(f"{hint}.{i}", field) for i, field in enumerate(kind.fields))
        name, count = hint, 1
        while name in self.types:
            name, count = f"{hint}_{count}", count + 1
        self.types[name] = _type(kind)
        return name


def _type(kind: Any) -> Type:
    sizes = _sizes(kind)
    known = sizes is not None and all(isinstance(s, int) for s in sizes)
    shape = tuple(sizes or ()) if known else None
    return Type(shape=shape, dtype=str(getattr(kind, "dtype", None) or type(kind).__name__))


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    if array.dtype.kind not in "biuf":  # bfloat16 and others, which NumPy has from elsewhere
        array = array.astype(np.float32)
    return torch.from_numpy(np.array(array))


def _attributes(attributes: Any) -> dict[str, Any]:
    """As Python has them: lists, numbers, texts."""
    if attributes is None:
        return {}
    names = [n for n in dir(attributes) if not n.startswith("_") and n not in ("id_", "same_as")]
    found = {name: getattr(attributes, name) for name in names}
    return {name: _plain(value) for name, value in found.items() if not callable(value)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    number = getattr(value, "value", None)
    if isinstance(number, int | float):
        return number
    try:
        return [_plain(each) for each in value]
    except TypeError:
        return str(value)

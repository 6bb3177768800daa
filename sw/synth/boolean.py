"""Functions of cells, as Liberty writes them: `!(A & B)`, `(A B)'`, `A ^ B`."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from sw.synth.errors import SynthError

_TOKEN = re.compile(r"\s*([A-Za-z_][\w\[\]]*|[01!'&*|+^()])")

Values = Mapping[str, Any]
"""By name of an input: an int or an array of them, each bit a case; "1" is that of all ones."""
Evaluate = Callable[[Values], Any]


def evaluator(function: str) -> Evaluate:
    """What works out `function`, bit by bit. A name that it does not know is a `KeyError`."""
    return _Parser(function).whole()


def truth_table(function: str, inputs: Sequence[str]) -> tuple[bool, ...]:
    """Values of `function` over all values of `inputs`, the last one changing fastest."""
    evaluate = evaluator(function)
    try:
        return tuple(
            bool(evaluate({**dict(zip(inputs, values, strict=True)), "1": 1}))
            for values in product((0, 1), repeat=len(inputs))
        )
    except KeyError as error:
        raise SynthError(
            f"function {function!r}: {error.args[0]} is no input of the cell"
        ) from None


class _Parser:
    """Recursive descent: | and + bind least, then &, * and a space, then ^, then ! and '."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._tokens = []
        position, text = 0, function.strip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._error()
            self._tokens.append(found[1])
            position = found.end()

    def whole(self) -> Evaluate:
        result = self._or()
        if self._tokens:
            raise self._error()
        return result

    def _error(self) -> SynthError:
        return SynthError(f"function {self._function!r}: not an expression of Liberty")

    def _next_is(self, symbols: str) -> bool:
        if self._tokens and self._tokens[0] in symbols:
            self._tokens.pop(0)
            return True
        return False

    def _or(self) -> Evaluate:
        result = self._and()
        while self._next_is("|+"):
            result = _or(result, self._and())
        return result

    def _and(self) -> Evaluate:
        result = self._xor()
        while self._tokens and (self._next_is("&*") or self._tokens[0] not in "|+)"):
            result = _and(result, self._xor())
        return result

    def _xor(self) -> Evaluate:
        result = self._not()
        while self._next_is("^"):
            result = _xor(result, self._not())
        return result

    def _not(self) -> Evaluate:
        if self._next_is("!"):
            return _not(self._not())
        if self._next_is("("):
            result = self._or()
            if not self._next_is(")"):
                raise self._error()
        else:
            result = self._name()
        while self._next_is("'"):
            result = _not(result)
        return result

    def _name(self) -> Evaluate:
        name = self._tokens.pop(0) if self._tokens else ""
        if name in ("0", "1"):
            return lambda values: values["1"] if name == "1" else values["1"] ^ values["1"]
        if not (name[:1].isalpha() or name[:1] == "_"):
            raise self._error()
        return lambda values: values[name]


def _not(a: Evaluate) -> Evaluate:
    return lambda values: a(values) ^ values["1"]


def _and(a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda values: a(values) & b(values)


def _or(a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda values: a(values) | b(values)


def _xor(a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda values: a(values) ^ b(values)

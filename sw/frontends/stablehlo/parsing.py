"""MLIR is parsed in a process of its own."""

from sw.frontends.apart import ApartError, answer, question, reply
from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.reading import read
from sw.frontends.stablehlo.records import Contents

_CHILD = "from sw.frontends.stablehlo.parsing import child; child()"


def parse(data: bytes) -> Contents:
    """The records of a module. `StableHloError` if it cannot be parsed, however that ends."""
    try:
        found = answer(_CHILD, data)
    except ApartError as error:
        raise StableHloError(
            f"MLIR's parser {error}", hint="the file is damaged: export the model again"
        ) from None
    if isinstance(found, dict):
        raise StableHloError(**found)
    assert isinstance(found, Contents)
    return found


def child() -> None:
    """Read a module from standard input, and write its records or its error, pickled."""
    try:
        found: Contents | dict[str, str] = read(question())
    except StableHloError as error:
        names = ("reason", "hint", "operation", "place")
        found = {name: getattr(error, name) for name in names}
    except Exception as error:  # what the bindings raise for what they do not know
        reason = f"it cannot be read: {type(error).__name__}: {error}"[:300]
        found = {"reason": reason, "hint": "export the model again"}
    reply(found)

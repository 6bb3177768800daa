"""Tables that must have an entry for every member of an enumeration."""

import enum
from collections.abc import Iterable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=enum.Enum)
V = TypeVar("V")


class MissingMemberError(LookupError):
    """A block does not handle a member of an enumeration of the contract: a bug in that block."""


def exhaustive(
    where: str, kind: type[K], table: Mapping[K, V], *, without: Iterable[K] = ()
) -> dict[K, V]:
    """`table` as a dict that has an entry for every member of `kind` but those in `without`.

    where: the block that the table belongs to, for the message. Raises `MissingMemberError`.
    """
    elsewhere = set(without)
    for member in kind:
        if member not in table and member not in elsewhere:
            raise MissingMemberError(
                f"{where} does not handle {kind.__name__}.{member.name}; add it to the table there"
            )
    return dict(table)


def handles(where: str, kind: type[K], *members: K) -> None:
    """Declare that the code in `where` tells exactly `members` of `kind` apart.

    For logic that is no table, such as a multiplexer between two of four cases. Raises
    `MissingMemberError`, which is the reminder to look at that code.
    """
    exhaustive(where, kind, dict.fromkeys(members))

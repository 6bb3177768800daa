"""Where a database of results is: a file, or a URL of SQLite or PostgreSQL."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from sw.results.task import CampaignError

POSTGRESQL = "postgresql+psycopg"
_FORMS = "must be a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A database. path: of the file if it is SQLite's, else None. As text it has no password."""

    url: URL
    path: Path | None

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)


def locate(where: str | Path) -> Location:
    """The database that `where` names; `CampaignError` if it names none.

    What has no `://` in it is a file. `postgresql://` and `postgresql+psycopg://` are the same.
    """
    if isinstance(where, Path) or "://" not in where:
        return _file(Path(where))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError) as error:
        raise CampaignError(f"database {_masked(where)!r}: {error}; {_FORMS}") from None
    if url.drivername == "sqlite":
        if not url.database or url.database == ":memory:":
            raise CampaignError(
                f"database {where!r}: names no file, so nothing would be kept; {_FORMS}"
            )
        if url.query:
            raise CampaignError(f"database {where!r}: SQLite's URL takes no options; {_FORMS}")
        return _file(Path(url.database))
    if url.drivername in ("postgresql", POSTGRESQL):
        return Location(url=url.set(drivername=POSTGRESQL), path=None)
    raise CampaignError(f"database {_masked(where)!r}: {_FORMS}")


def _file(path: Path) -> Location:
    if str(path) in ("", "."):
        raise CampaignError(f"database {str(path)!r}: {_FORMS}")
    return Location(url=URL.create("sqlite", database=str(path)), path=path)


def _masked(text: str) -> str:
    """A URL that may be none, without what looks like a password."""
    scheme, _, rest = text.partition("://")
    user, at, host = rest.rpartition("@")
    name = user.partition(":")[0] + (":***" if ":" in user else "")
    return f"{scheme}://{name}{at}{host}"

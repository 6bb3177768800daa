"""Links to the files that a campaign wrote beside the page."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from sw.report.data import CampaignFacts, Link, Point

_MOST = 5000
"""Files that are looked at; a folder of more is not a campaign's own."""
_DEPTH = 4


def point_files(points: Sequence[Point], folder: Path) -> list[Point]:
    """The points with links to files in `folder` whose path has the point's digest or its label."""
    by_part: dict[str, list[Path]] = {}
    for path in _files(folder):
        for part in {*path.parts[:-1], path.name, path.name.partition(".")[0]}:
            by_part.setdefault(part, []).append(path)
    if not by_part:
        return list(points)
    return [
        replace(
            point,
            files=tuple(
                _link(path)
                for path in dict.fromkeys(
                    [*by_part.get(point.digest, []), *by_part.get(point.label, [])]
                )
            ),
        )
        for point in points
    ]


def campaign_files(campaign: CampaignFacts, folder: Path) -> tuple[Link, ...]:
    """Files directly in `folder` if that is the campaign's own: `results/NAME`."""
    if folder.resolve().name != campaign.name:
        return ()
    found = [path for path in _files(folder) if len(path.parts) == 1 and path.suffix != ".html"]
    return tuple(map(_link, found))


def _files(folder: Path) -> list[Path]:
    """Relative paths of the files below `folder`, sorted; none if it is too large to be ours."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        here = Path(place).relative_to(folder)
        if len(here.parts) >= _DEPTH:
            folders.clear()
        found += [here / name for name in names]
        if len(found) > _MOST:
            return []
    return sorted(found)


def _link(path: Path) -> Link:
    return Link(label=str(path), href=quote(path.as_posix()))

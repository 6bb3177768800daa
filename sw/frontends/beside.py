"""Files that a model names: only those in its folder."""

from pathlib import Path


def beside(folder: Path | None, name: str) -> Path | None:
    """The file called `name` in the folder, or in one below it; links may not lead out of it."""
    if folder is None or not name or "\0" in name:
        return None
    try:
        path = (folder / name).resolve()
        return path if path.is_relative_to(folder.resolve()) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None

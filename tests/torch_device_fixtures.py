"""`torch.systola` for a test: with options of its own, and nothing counted so far."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import systola


@pytest.fixture
def device() -> Iterator[Any]:
    """`torch.systola` with the preset `tiny` on the golden model."""
    systola.register_torch_device()
    torch.systola.set_options(config="tiny")
    torch.systola.reset_report()
    yield torch.systola
    torch.systola.set_options()

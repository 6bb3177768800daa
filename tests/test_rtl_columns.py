"""Products of which some columns run beside a norm, on RTL with stalls.

Weights enter a row a cycle, as they do in no preset of this size: with two, the uneven product is
not cut.
"""

from collections.abc import Iterator

import pytest
from chain_graphs import products_around_a_norm
from rtl_graphs import assert_runs_exactly

from spec import preset
from sw.compiler.placement import follow
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]

CONFIG = preset("default").with_settings({"weight_rows": "1"})


@pytest.fixture(scope="module")
def device() -> Iterator[RtlDevice]:
    with RtlDevice(CONFIG) as opened:
        yield opened


@pytest.mark.parametrize("sizes", [(64, 256, 1024), (64, 250, 1030)])
def test_products_in_two_parts_are_exact(
    device: RtlDevice, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int]
) -> None:
    # One before the norm that followed whole would take too much of the bus: it is cut as well.
    monkeypatch.setattr(follow, "BUS", 0.4)
    made = assert_runs_exactly(device, CONFIG, products_around_a_norm(*sizes), 1)
    names = [layer.name for layer in made.layers.layers]
    assert {"conv2d.c0", "conv2d_2.c0"} <= set(names)

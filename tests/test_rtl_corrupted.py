"""Corrupted programs stay in their regions and end by themselves; `systola corrupt` runs more."""

import pytest

from spec import preset
from sw.measure.corrupted import campaign
from sw.runtime.simulator.layout import MemoryLayout

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]


def test_corrupted_programs_touch_nothing_outside_and_do_not_hang():
    found = campaign(preset("tiny"), 120, seed=1)
    assert (found.outside, found.hangs, found.wrong) == (0, 0, 0), found.problems
    assert found.programs == 120 and found.controls == 6
    assert found.ends["OUTSIDE_REGION"] > 5 and found.ends["ILLEGAL_INSTRUCTION"] > 5


def test_without_limits_the_same_programs_do_leave_their_regions(monkeypatch):
    """Or a memory that counts nothing would pass too."""
    monkeypatch.setattr(MemoryLayout, "region_bytes", lambda layout, region: 0xFFFF_FFFF)
    found = campaign(preset("tiny"), 60, seed=1)
    assert found.outside > 5 and not found.good
    assert "lies outside the region" in found.problems[0]

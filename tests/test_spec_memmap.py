"""The register map: no overlap, aligned, counters where the formula says."""

from spec.isa import REGIONS, Engine
from spec.memmap import ADDR_BITS, OFFSETS, REGISTERS, Stall


def test_registers_are_aligned_inside_the_window_and_do_not_overlap():
    offsets = [r.offset for r in REGISTERS]
    assert len(offsets) > 100
    assert len(set(offsets)) == len(offsets)
    assert all(o % 4 == 0 and 0 <= o < 1 << ADDR_BITS for o in offsets)


def test_names_are_unique_and_access_is_known():
    assert len(OFFSETS) == len(REGISTERS)
    assert {r.access for r in REGISTERS} == {"ro", "wo", "rw", "rw1c"}
    assert all(r.doc for r in REGISTERS)


def test_wide_registers_have_their_high_word_next():
    low = [name for name in OFFSETS if name.endswith("_LO")]
    assert len(low) > 40
    for name in low:
        assert OFFSETS[name[:-2] + "HI"] == OFFSETS[name] + 4
        assert OFFSETS[name] % 8 == 0


def test_every_engine_has_every_counter_and_every_region_a_base():
    for engine in Engine:
        assert f"PC_{engine.name}" in OFFSETS
        for stall in Stall:
            wanted = 0x200 + 8 * (8 * engine + stall)
            assert OFFSETS[f"COUNT_{engine.name}_{stall.name}_LO"] == wanted
    for region in range(REGIONS):
        assert OFFSETS[f"BASE{region}_LO"] == 0x80 + 8 * region

"""The page of synthesis shows every block of every configuration."""

from sw.measure.pages.silicon import _blocks


def test_a_block_that_the_first_configuration_lacks_has_a_row():
    def record(config, **areas):
        blocks = {name: {"area_ge": area} for name, area in areas.items()}
        return {"config": config, "blocks": blocks}

    text = _blocks([record("micro", load=1000), record("default", load=2000, depthwise=100_000)])
    assert "| `depthwise` |  | 100.0 |" in text
    assert "| `load` | 1.0 | 2.0 |" in text

"""NpuConfig: every rule has its own message; derived sizes; digests."""

import dataclasses
import itertools
import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from hw_gen.blocks.spad_request import bank_of as hardware_bank_of
from spec.banks import bank_of
from spec.config import PRESETS, ConfigError, NpuConfig, parse_settings, preset

RULES = [
    ({"rows": 8.0}, "rows=8.0: must be a whole number"),
    ({"rows": True}, "rows=True: must be a whole number"),
    ({"depthwise": 1}, "depthwise=1: must be true or false"),
    ({"rows": 1}, "rows=1: must lie in 2…128"),
    ({"rows": 129}, "rows=129: must lie in 2…128"),
    ({"cols": 0}, "cols=0: must lie in 2…128"),
    ({"spad_kib": 2}, "spad_kib=2: must lie in 4…8192"),
    ({"acc_kib": 8192}, "acc_kib=8192: must lie in 1…4096"),
    ({"bus_bytes": 4}, "bus_bytes=4: must lie in 8…64"),
    ({"banks": 2}, "banks=2: must lie in 4…16"),
    ({"param_entries": 1}, "param_entries=1: must lie in 4…4096"),
    ({"table_entries": 512}, "table_entries=512: must lie in 513…513"),
    ({"semaphores": 16}, "semaphores=16: must lie in 20…64"),
    ({"sem_bits": 4}, "sem_bits=4: must lie in 8…16"),
    ({"queue_depth": 64}, "queue_depth=64: must lie in 2…32"),
    ({"outstanding": 4}, "outstanding=4: must lie in 8…512"),
    ({"max_burst": 512}, "max_burst=512: must lie in 1…256"),
    ({"axi_addr_bits": 16}, "axi_addr_bits=16: must lie in 32…64"),
    ({"taps": 9}, "taps=9: must lie in 1…8"),
    ({"depthwise_columns": 3}, "depthwise_columns=3: must lie in 1…2"),
    ({"weight_rows": 0}, "weight_rows=0: must lie in 1…8"),
    ({"weight_rows": 3}, "weight_rows=3: must be a power of two"),
    (
        {"rows": 6, "weight_rows": 8},
        "weight_rows=8: must be at most rows=6; use weight_rows<=4",
    ),
    ({"name": 5}, "name=5: must be a text"),
    ({"bus_bytes": 12}, "bus_bytes=12: must be a power of two"),
    ({"banks": 6}, "banks=6: must be a power of two"),
    ({"queue_depth": 5}, "queue_depth=5: must be a power of two"),
    ({"outstanding": 100}, "outstanding=100: must be a power of two"),
    ({"max_burst": 15}, "max_burst=15: must be a power of two"),
    (
        {"bus_bytes": 64, "max_burst": 128},
        "max_burst=128: times bus_bytes=64 exceeds the 4096 bytes that an AXI burst may span; "
        "use max_burst<=64",
    ),
    (
        {"spad_kib": 5, "rows": 128, "banks": 16},
        "spad_kib=5: must fill 16 banks of 128-byte words",
    ),
    ({"spad_kib": 48}, "spad_kib=48: must be a power of two"),
    (
        {"cols": 12},
        "acc_kib=64: must hold a power of two (4 or more) of 48-byte vectors (cols=12); "
        "acc_kib=48 or acc_kib=96 does",
    ),
    (
        {"cols": 7},
        "acc_kib=64: must hold a power of two (4 or more) of 28-byte vectors (cols=7); "
        "acc_kib=56 or acc_kib=112 does",
    ),
    (
        {"acc_kib": 1, "cols": 128},
        "acc_kib=1: must hold a power of two (4 or more) of 512-byte vectors (cols=128); "
        "acc_kib=2 does",
    ),
    ({"transposed_weights": 1}, "transposed_weights=1: must be true or false"),
    ({"indexed_dma": 0}, "indexed_dma=0: must be true or false"),
    ({"lane_reductions": 0}, "lane_reductions=0: must be true or false"),
    ({"table_int16": 8}, "table_int16=8: must be true or false"),
    ({"shifts": "no"}, "shifts='no': must be true or false"),
    ({"vector_contexts": 0}, "vector_contexts=0: must lie in 1…8"),
    ({"vector_contexts": 3}, "vector_contexts=3: must be a power of two"),
    ({"engine_counters": 2}, "engine_counters=2: must be true or false"),
    ({"program_loops": 1}, "program_loops=1: must be true or false"),
    ({"load_window": 3}, "load_window=3: must be a power of two"),
    ({"load_window": 8}, "load_window=8: must lie in 2…4"),
    ({"regions": 3}, "regions=3: must lie in 4…8"),
    ({"vector_lanes": 129}, "vector_lanes=129: must lie in 0…128"),
    (
        {"vector_lanes": 3},
        "vector_lanes=3: must divide cols=16 (1, 2, 4, 8, 16), or be 0 for a lane in each column",
    ),
    (
        {"wide_operands": True},
        "wide_operands=True: this release's generator has no such hardware yet",
    ),
]


@pytest.mark.parametrize(("changes", "message"), RULES, ids=[m for _, m in RULES])
def test_illegal_configuration_says_field_value_and_rule(changes, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        NpuConfig(**changes)


def test_every_bounded_field_is_covered_by_a_rule_test():
    tested = {next(iter(changes)) for changes, _ in RULES}
    bounded = {f.name for f in dataclasses.fields(NpuConfig)}
    assert bounded - tested == set()


@pytest.mark.parametrize("cols", [3, 7, 12, 96, 127])
@pytest.mark.parametrize("acc_kib", [1, 10, 63, 4095])
def test_suggested_accumulator_sizes_are_the_nearest_legal_ones(cols, acc_kib):
    def legal(kib):
        vectors = kib * 256 / cols
        return vectors >= 4 and vectors == int(vectors) and int(vectors).bit_count() == 1

    assert not legal(acc_kib)
    with pytest.raises(ConfigError) as caught:
        NpuConfig(cols=cols, acc_kib=acc_kib)
    below = [k for k in range(1, acc_kib) if legal(k)][-1:]
    above = [k for k in range(acc_kib + 1, 4097) if legal(k)][:1]
    suggested = re.findall(r"acc_kib=(\d+)(?= or | does)", str(caught.value))
    assert [int(size) for size in suggested] == below + above
    for size in below + above:
        assert NpuConfig(cols=cols, acc_kib=size).acc_kib == size


@pytest.mark.parametrize("name", PRESETS)
def test_presets_hold_what_their_derived_sizes_say(name):
    config = preset(name)
    assert config.pes == config.rows * config.cols
    assert config.word_bytes >= max(config.rows, config.cols, config.bus_bytes)
    assert config.word_bytes & (config.word_bytes - 1) == 0
    assert config.bank_depth * config.banks * config.word_bytes == config.spad_kib * 1024
    assert config.acc_vectors * config.cols * 4 == config.acc_kib * 1024
    assert config.acc_half * 2 == config.acc_vectors
    assert config.param_entry_bytes >= 9 * config.cols
    assert config.param_entry_bytes % config.bus_bytes == 0
    assert 2**config.spad_addr_bits == config.spad_bytes
    assert 2**config.acc_addr_bits == config.acc_vectors


def test_presets_are_the_promised_arrays():
    sizes = {name: (c.rows, c.cols) for name, c in PRESETS.items()}
    assert sizes == {
        "micro": (4, 4),
        "tiny": (4, 4),
        "small": (8, 8),
        "default": (16, 16),
        "large": (32, 32),
        "huge": (64, 64),
        "giant": (128, 128),
        "rect": (8, 16),
        "odd": (12, 12),
    }


@pytest.mark.parametrize("banks", [4, 8, 16])
def test_banks_are_even_and_break_power_of_two_pitches(banks):
    config = NpuConfig(banks=banks)
    found = [config.bank_of(word) for word in range(banks**4)]
    assert [found.count(bank) for bank in range(banks)] == [banks**3] * banks
    assert all(bank != following for bank, following in itertools.pairwise(found))
    for pitch in (1 << n for n in range(18)):
        hit = {config.bank_of(i * pitch) for i in range(banks)}
        assert len(hit) == banks, f"pitch {pitch} stays in banks {hit}"


@pytest.mark.parametrize(
    ("banks", "apart"), [(4, 1), *((banks, n) for banks in (8, 16) for n in (1, 2, banks))]
)
def test_words_that_are_read_in_one_cycle_have_banks_of_their_own(banks, apart):
    """At every carry that a word's number can have."""
    for word in (low + (ones << 4) for ones in (2**n - 1 for n in range(16)) for low in range(16)):
        assert bank_of(word, banks) != bank_of(word + apart, banks)


@pytest.mark.parametrize("banks", [4, 8, 16])
def test_the_hardware_finds_the_banks_that_the_compiler_expects(banks):
    config = NpuConfig(banks=banks)
    module, word = Module(), Signal(range(config.spad_words))
    bank = Signal(range(banks))
    module.d.comb += bank.eq(hardware_bank_of(word, banks))
    found = []

    async def bench(ctx):
        for at in range(config.spad_words):
            ctx.set(word, at)
            await ctx.delay(1e-9)
            found.append(ctx.get(bank))

    simulator = Simulator(module)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == [config.bank_of(at) for at in range(config.spad_words)]


def test_digest_covers_every_field_but_the_name():
    base = NpuConfig()
    assert NpuConfig(name="other").digest() == base.digest()
    changed = {
        "rows": 8, "cols": 8, "spad_kib": 128, "acc_kib": 128, "bus_bytes": 8, "banks": 16,
        "param_entries": 32, "semaphores": 64, "sem_bits": 9, "queue_depth": 4,
        "outstanding": 64, "max_burst": 8, "axi_addr_bits": 64, "taps": 5, "depthwise": False,
    }  # fmt: skip
    digests = {dataclasses.replace(base, **{k: v}).digest() for k, v in changed.items()}
    assert len(digests) == len(changed)
    assert base.digest() not in digests


def test_digest_is_stable_across_releases():
    # A changed digest makes every stored program image unusable: change this on purpose only.
    assert preset("tiny").digest_hex == "29bc439a2db21891"
    assert preset("default").digest_hex == "a0cb5992fcdd95c2"


def test_pairs_of_columns_need_three_taps():
    config = preset("default")
    assert config.depthwise_pairs and not preset("tiny").depthwise_pairs
    assert not config.with_settings({"taps": "2"}).depthwise_pairs
    assert not config.with_settings({"depthwise": "no"}).depthwise_pairs


def test_settings_from_text_change_fields_and_label():
    config = preset("tiny").with_settings({"rows": "8", "spad_kib": "0x20"})
    assert (config.rows, config.spad_kib, config.name) == (8, 32, "tiny+rows=8+spad_kib=0x20")
    assert preset("tiny").with_settings({}) is preset("tiny")
    assert not preset("tiny").with_settings({"depthwise": "no"}).depthwise


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": "eight"}, "rows=eight: must be a whole number"),
        ({"rows": "８"}, "rows=８: must be a whole number"),
        ({"rows": "1_6"}, "rows=1_6: must be a whole number"),
        ({"rows": " 8"}, "rows= 8: must be a whole number"),
        ({"rows": "9" * 5000}, f"rows={'9' * 60}: must be a whole number"),
        ({"depthwise": "maybe"}, "depthwise=maybe: must be true or false"),
        ({"rows": "0"}, "rows=0: must lie in 2…128"),
    ],
)
def test_bad_setting_is_refused(settings, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        preset("default").with_settings(settings)


def test_options_on_the_command_line_choose_the_same_configuration():
    for config in (*PRESETS.values(), NpuConfig(rows=8, name="mine"), NpuConfig()):
        words = config.options.split()
        settings = parse_settings(w for w in words[2:] if w != "--set")
        assert words[0] == "--config"
        assert preset(words[1]).with_settings(settings).digest() == config.digest()
    changed = preset("tiny").with_settings({"rows": "8", "spad_kib": "0x20"})
    assert changed.options == "--config tiny --set rows=8 --set spad_kib=32"


@pytest.mark.parametrize("item", ["rows", "=8", "rows="])
def test_setting_of_another_form_is_refused(item):
    with pytest.raises(ConfigError, match=f"^--set {item}: must be of the form name=value, "):
        parse_settings([item])


@pytest.mark.parametrize("key", ["colour", "name"])
def test_unknown_setting_lists_the_fields(key):
    with pytest.raises(ConfigError) as caught:
        preset("default").with_settings({key: "1"})
    text = str(caught.value)
    assert text.startswith(f"{key}=1: no such configuration field; fields are rows, cols, spad_kib")


def test_unknown_preset_lists_the_presets():
    message = (
        "config 'nosuch': no such preset; presets are micro, tiny, small, default, large, huge, "
        "giant, rect, odd"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        preset("nosuch")

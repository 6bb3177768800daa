"""List scheduling: instructions in the order in which they can start, and what may not mix."""

from virtual_programs import load, matrix, reads, spad, store, vector, writes

from spec import preset
from spec.isa import Space
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.program.list_scheduling import FREEDOMS, list_schedule
from sw.compiler.program.records import DmaLoop, Load
from sw.compiler.program.virtual import VirtualInstruction

CONFIG = preset("default")
ALONE = MemoryBudget.whole(CONFIG)
CONCURRENT = MemoryBudget(CONFIG.spad_bytes, overlap=Overlap.CONCURRENT, shares_acc=True)
ROWS = MemoryBudget(CONFIG.spad_bytes, overlap=Overlap.ROWS)


def notes(program: list[VirtualInstruction], *budgets: MemoryBudget) -> list[str]:
    return [each.note for each in list_schedule(program, budgets, CONFIG)]


def two_layers() -> list[VirtualInstruction]:
    """Layer 0 loads twice and computes; layer 1 could load and compute at once."""
    a, b, c = (spad(name, 16, 64 * i) for i, name in enumerate("abc"))
    return [
        load(a, "load a", 0, cycles=200),
        load(b, "load b", 0, cycles=200),
        vector([reads(a), reads(b)], CONFIG, "compute 0", 0),
        load(c, "load c", 1, cycles=1),
        vector([reads(c)], CONFIG, "compute 1", 1),
    ]


def test_an_order_that_nothing_improves_is_kept() -> None:
    program = two_layers()
    assert list_schedule(program[:3], [ALONE], CONFIG) == program[:3]


def test_loads_of_layers_keep_their_order_where_another_would_not_end_sooner() -> None:
    order = notes(two_layers(), ALONE, ALONE)
    assert [note for note in order if note.startswith("load")] == ["load a", "load b", "load c"]


def waits_for_its_table() -> list[VirtualInstruction]:
    """Layer 1 loads a TABLE that layer 0 still looks up, and then weights for the array."""
    table, data, weights = spad("table", 16, 0), spad("data", 16, 64), spad("weights", 16, 128)
    return [
        load(data, "load data", 0, cycles=1),
        vector([reads(data), reads(table)], CONFIG, "look up", 0, n=1000),
        load(table, "load table", 1, cycles=1, space=Space.TABLE),
        load(weights, "load weights", 1, cycles=500),
        matrix([reads(weights)], "product", 1, cycles=500),
    ]


def test_weights_do_not_wait_behind_a_table_that_is_in_use() -> None:
    order = notes(waits_for_its_table(), ALONE, ALONE)
    assert order.index("load weights") < order.index("load table")


def test_loads_keep_their_order_where_no_freedom_is_given() -> None:
    careful = list_schedule(waits_for_its_table(), [ALONE, ALONE], CONFIG, FREEDOMS[:1])
    order = [each.note for each in careful]
    assert order.index("load table") < order.index("load weights")


def test_an_engine_takes_concurrent_layers_as_they_become_ready() -> None:
    """Loads of both are ready at the start; the first takes the engine, the shorter one waits."""
    order = notes(two_layers(), CONCURRENT, CONCURRENT)
    assert order.index("load c") < order.index("compute 0")
    # Within a layer nothing changes place.
    assert order.index("load a") < order.index("load b") < order.index("compute 0")


def test_vectors_of_later_layers_go_first_where_they_are_ready() -> None:
    """The vector engine mixes layers of any kind: what it waits for decides."""
    a, b, c = spad("a", 16, 0), spad("b", 16, 64), spad("c", 16, 128)
    program = [
        load(a, "load a", 0, cycles=1),
        matrix([reads(a), writes(b)], "product", 0, cycles=1000),
        vector([reads(b)], CONFIG, "epilogue", 0),
        load(c, "load c", 1, cycles=1),
        vector([reads(c)], CONFIG, "other", 1),
    ]
    order = notes(program, ALONE, ALONE)
    assert order.index("other") < order.index("epilogue")


def test_a_product_beside_a_fused_layer_waits_for_its_turn_on_the_array() -> None:
    """Its MATRIX is ready at once, but what comes earlier in the program goes first."""
    a, b = spad("a", 16, 0), spad("b", 16, 64)
    program = [
        load(a, "load a", 0, cycles=100),
        matrix([reads(a)], "first", 0),
        vector([reads(a)], CONFIG, "fused", 1),
        matrix([writes(b)], "second", 2),
    ]
    order = notes(program, ALONE, CONCURRENT, CONCURRENT)
    assert order.index("first") < order.index("second")
    assert notes([*program[:2], matrix([writes(b)], "second", 1)], ROWS, ROWS).index("second") < 2


def test_a_product_beside_a_layer_with_its_own_fills_the_gaps_of_that() -> None:
    a, b = spad("a", 16, 0), spad("b", 16, 64)
    program = [
        load(a, "load a", 0, cycles=100),
        matrix([reads(a)], "own", 0),
        matrix([writes(b)], "beside", 1),
    ]
    order = notes(program, CONCURRENT, CONCURRENT)
    assert order.index("beside") < order.index("own")


def test_dependences_are_never_turned_round() -> None:
    """Read after write, write after read and write after write, on whatever engines."""
    a, b = spad("a", 16, 0), spad("b", 16, 64)
    program = [
        load(a, "write a", 0, cycles=500),
        store(a, "read a", 0, cycles=500),
        vector([writes(a)], CONFIG, "write a again", 1),
        vector([writes(b)], CONFIG, "b", 2),
    ]
    order = notes(program, *[CONCURRENT] * 3)
    assert order.index("write a") < order.index("read a") < order.index("write a again")
    assert order.index("b") < order.index("write a again")


def test_what_is_overwritten_has_been_read_by_every_layer() -> None:
    """Layer 1 reads all that layer 0 reads, and sooner; layer 2 comes behind both."""
    a, slow, out = spad("a", 64, 0), spad("slow", 16, 64), spad("out", 16, 128)
    program = [
        load(slow, "load slow", 0, cycles=900),
        vector([reads(a, 0, 32), reads(slow)], CONFIG, "read late", 0),
        vector([reads(a)], CONFIG, "read soon", 1),
        vector([writes(a), writes(out)], CONFIG, "overwrite", 2),
    ]
    order = notes(program, ALONE, ALONE, ALONE)
    assert order.index("read soon") < order.index("read late") < order.index("overwrite")


def pieces(count: int) -> list[VirtualInstruction]:
    """LOADs of neighbouring blocks, each of ten words, and the product that reads them all."""
    weights = spad("weights", 160 * count)
    made = []
    for i in range(count):
        one = load(weights, f"block {i}", 0)
        record = Load(mem_base=160 * i, chip_base=160 * i, run=160, loop=[DmaLoop(1, 0, 160, 160)])
        object.__setattr__(one, "record", record)
        object.__setattr__(one, "accesses", [writes(weights, 160 * i, 160 * i + 160)])
        made.append(one)
    return [*made, matrix([reads(weights)], "product", 0)]


def test_loads_that_stay_together_become_one() -> None:
    order = list_schedule(pieces(4), [ALONE], CONFIG)
    assert [each.note for each in order] == ["block 0 and on", "product"]
    merged = order[0].record
    assert isinstance(merged, Load) and merged.loop == [DmaLoop(4, 0, 160, 160)]
    slices = [(a.start, a.stop, a.level, a.iteration) for a in order[0].accesses]
    assert slices == [(160 * i, 160 * i + 160, 1, i) for i in range(4)]


def test_a_load_that_waits_for_more_than_the_one_before_it_stays_apart() -> None:
    old = spad("old", 160, 160)
    user = vector([reads(old)], CONFIG, "user", 0)
    order = notes([user, *pieces(2)], ALONE)
    assert [note for note in order if note.startswith("block")] == ["block 0", "block 1"]

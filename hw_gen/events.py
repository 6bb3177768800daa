"""Wires for rtl/event_trace.sv, which reads them by name; without it they cost nothing."""

from collections.abc import Sequence

from amaranth.hdl import *

from hw_gen.interfaces import ENGINE, STALL
from spec.isa import Engine

_SLOTS = 16
_ENGINES = _SLOTS // 2
_NUMBER = 4
"""Bits of a stall or an engine in the trace."""
_INDEX = 20
"""Bits of an instruction's index in the trace."""


def event_wires(m: Module, running: Value, read: Value, engines, posts: Sequence[tuple]) -> None:
    """What every engine does in each cycle, and what is posted.

    read: LOAD takes a word from the bus. engines: `EngineStatus` by engine. posts: (engine,
    stream of semaphore updates).
    """
    assert len(Engine) <= _ENGINES and len(posts) <= _SLOTS
    assert max(STALL.width, ENGINE.width) <= _NUMBER
    # One statement each: Amaranth takes the name from it.
    event_run = Signal()
    event_read = Signal()
    event_stall = Signal(_NUMBER * _ENGINES)
    event_index = Signal(_INDEX * _ENGINES)
    event_post = Signal(_SLOTS)
    event_post_engine = Signal(_NUMBER * _SLOTS)
    event_post_index = Signal(_INDEX * _SLOTS)
    m.d.comb += [event_run.eq(running), event_read.eq(read)]
    for e in Engine:
        m.d.comb += [
            event_stall.word_select(int(e), _NUMBER).eq(engines[e].stall),
            event_index.word_select(int(e), _INDEX).eq(engines[e].index),
        ]
    for i, (e, stream) in enumerate(posts):
        m.d.comb += [
            event_post[i].eq(stream.valid & stream.ready),
            event_post_engine.word_select(i, _NUMBER).eq(e),
            event_post_index.word_select(i, _INDEX).eq(stream.payload.index),
        ]

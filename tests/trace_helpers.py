"""Recordings made by hand, as rtl/event_trace.sv would write them."""

import numpy as np

from spec.isa import Engine
from sw.measure.profile.trace_records import LAST, POST, READ, parse_recording


def word(cycle, kind, engine=0, index=0):
    return kind << 60 | int(engine) << 56 | index << 36 | cycle


def recording(cycles, states, posts=(), reads=()):
    """states: engine -> [(cycle, stall, instruction)], the first at 0. posts: (cycle, engine,
    instruction). reads: (cycle, bus words). Engines left out are idle."""
    from spec.memmap import Stall

    words = [word(c, POST, e, i) for c, e, i in posts]
    words += [word(c, READ, Engine.LOAD, n) for c, n in reads]
    for engine in Engine:
        rows = states.get(engine, [(0, Stall.IDLE, 0)])
        words += [word(c, int(s), engine, i) for c, s, i in rows]
    words.sort(key=lambda w: w & (1 << 36) - 1)
    return parse_recording(np.array([*words, word(cycles, LAST)], "<u8"))

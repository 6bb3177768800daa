"""Data for the page without a database: a few points by hand, or thousands at random."""

import random
from dataclasses import asdict

from spec.config import PRESETS
from sw.report.data import (
    CampaignFacts,
    Failure,
    History,
    HistoryEntry,
    Measurement,
    Mismatch,
    Point,
    ReportData,
)

WORKLOADS = ("matmul:64x64x64", "resnet8", "keyword", "bert_tiny")
ENGINES = ("fetch", "load", "store", "matrix", "vector", "depthwise")
STATES = ("busy", "semaphore", "memory", "bank", "pipeline", "idle")
EVIL = '</script><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'


def synthetic(count: int, seed: int = 0, *, workloads: int = 4) -> ReportData:
    """`count` points that look like those of a sweep, every twentieth of them illegal."""
    draw = random.Random(seed)
    base = {k: v for k, v in asdict(PRESETS["default"]).items() if k != "name"}
    points = tuple(_point(number, draw, base, workloads) for number in range(count))
    counts = {"passed": count * 9, "illegal": sum(bool(p.reason) for p in points)}
    return ReportData(
        title="sweep synthetic",
        made_at="2026-01-02T03:04:05+00:00",
        release="systola 0.1.0",
        bases={"default": base},
        campaigns=(
            CampaignFacts(
                number=1,
                kind="sweep",
                name="synthetic",
                commit="0123456789ab",
                created_at="2026-01-01T00:00:00+00:00",
                counts=counts,
            ),
            *(_campaign(number) for number in range(2, 7)),
        ),
        points=points,
        history=tuple(_history(draw, w, c) for w in WORKLOADS for c in ("tiny", "default")),
        failures=(
            Failure(
                campaign=6,
                title="resnet8 tiny rtl seed 3",
                kind="run",
                workload="resnet8",
                config="tiny",
                device="rtl",
                status="failed",
                message="12 of 640 elements differ from the golden model; first: logits[0, 3]",
                mismatch=Mismatch(
                    layer="conv2d_3",
                    instruction=417,
                    text="MATRIX m=16",
                    element="[0, 3]",
                    expected="12",
                    got="13",
                ),
                command="systola run resnet8 --limit 4 --config tiny --device rtl",
            ),
            Failure(
                campaign=6,
                title="keyword tiny rtl seed 0 latency 400 stall 0.2",
                kind="run",
                workload="keyword",
                config="tiny",
                device="rtl",
                status="timed out",
                message="longer than 600 s",
                quarantine="slow host, until 2026-12-01",
            ),
        ),
    )


def _point(number: int, draw: random.Random, base: dict, workloads: int) -> Point:
    changes = {
        "rows": draw.choice((4, 8, 12, 16, 24, 32)),
        "cols": draw.choice((4, 8, 16, 32)),
        "spad_kib": draw.choice((32, 64, 128, 256, 512)),
        "acc_kib": draw.choice((8, 16, 32, 64)),
        "bus_bytes": draw.choice((8, 16, 32, 64)),
        "param_entries": 64 + number,
    }
    label = "default" + "".join(f"+{k}={v}" for k, v in changes.items())
    if number % 20 == 19:
        reason = "acc_kib=4: must hold a power of two of 48-byte vectors"
        return Point(id=f"c1-{label}", campaign=1, label=label, reason=reason)
    pes = changes["rows"] * changes["cols"]
    area = 4_000 + 620.0 * pes + 900 * changes["bus_bytes"] * draw.uniform(0.9, 1.1)
    fmax = 900 * draw.uniform(0.8, 1.05) / (1 + pes / 4000)
    return Point(
        id=f"c1-{number:016x}",
        campaign=1,
        label=label,
        base="default",
        changes={k: v for k, v in changes.items() if base[k] != v},
        digest=f"{number:016x}",
        pes=pes,
        bus_bytes=changes["bus_bytes"],
        memory_kib=changes["spad_kib"] + changes["acc_kib"] + 6.5,
        area_ge=area,
        fmax_mhz=fmax,
        critical_ns=1000 / fmax,
        sram_bits=8 * 1024 * (changes["spad_kib"] + changes["acc_kib"]),
        blocks={
            "": area,
            "array": 560.0 * pes,
            "array.element": 500.0 * pes,
            "vector": 0.3 * (area - 560 * pes),
            "vector.alu": 0.1 * (area - 560 * pes),
            "load": 0.2 * (area - 560 * pes),
            "scratchpad": 0.4 * (area - 560 * pes),
        },
        measurements=tuple(
            _measured(name, draw, pes, changes["bus_bytes"], changes["spad_kib"], number)
            for name in WORKLOADS[:workloads]
        ),
        command=f"systola config show --config default --set rows={changes['rows']}",
    )


def _measured(
    name: str, draw: random.Random, pes: int, bus: int, spad: int, number: int
) -> Measurement:
    macs = {"matmul:64x64x64": 262_144, "resnet8": 12_500_000, "keyword": 2_700_000}.get(
        name, 5_000_000
    )
    moved = int(macs / 24 * (1 + 40 / spad))
    cycles = int(max(macs / pes, moved / bus) * draw.uniform(1.1, 1.6)) + 900
    busy = int(macs / pes)
    counters = {}
    for engine in ENGINES:
        own = min(cycles, busy if engine == "matrix" else int(cycles * draw.uniform(0.05, 0.5)))
        rest = cycles - own
        wait, memory, bank = int(rest * 0.4), int(rest * 0.2), int(rest * 0.05)
        row = (own, wait, memory, bank, 0, rest - wait - memory - bank)
        counters[engine] = dict(zip(STATES, row, strict=True))
    predicted = number % 7 == 3
    return Measurement(
        workload=name,
        status="passed",
        cycles=cycles,
        predicted=predicted,
        error_pct=4.2 if predicted else None,
        predicted_cycles=int(cycles * draw.uniform(0.95, 1.05)),
        macs=macs,
        read_bytes=moved * 3 // 4,
        write_bytes=moved // 4,
        energy_uj=macs * 0.8e-6 * (1 + 90 / pes) * draw.uniform(0.9, 1.1),
        counters={} if predicted else counters,
        command=f"systola sim {name} --config default --device rtl",
    )


def _campaign(number: int) -> CampaignFacts:
    return CampaignFacts(
        number=number,
        kind="regress",
        name="smoke",
        commit=f"{number:x}abcdef01234",
        created_at=f"2026-01-0{number}T00:00:00+00:00",
        shown=number == 6,
        counts={"passed": 40, "failed": 1, "timeout": 1},
    )


def _history(draw: random.Random, workload: str, config: str) -> History:
    cycles = draw.randrange(10_000, 900_000)
    entries = []
    for number in range(2, 7):
        cycles = int(cycles * draw.choice((1, 1, 1, 0.97, 1.004, 1.03)))
        entries.append(
            HistoryEntry(
                campaign=number,
                commit=f"{number:x}abcdef01234",
                time=f"2026-01-0{number}T00:10:00+00:00",
                status="passed",
                cycles=cycles,
            )
        )
    if workload == "resnet8" and config == "tiny":
        last = entries.pop()
        entries.append(
            HistoryEntry(campaign=6, commit=last.commit, time=last.time, status="failed")
        )
    return History(
        workload=workload,
        config=config,
        device="rtl",
        seed=0,
        memory="latency 100",
        entries=tuple(entries),
    )

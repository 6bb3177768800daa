"""What was found at a point, and of a workload on it."""

from dataclasses import dataclass

from spec.config import NpuConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One workload on one point. cycles: counted by the RTL, None unless every run of it passed.

    predicted_cycles: by the timing model, whose mean measured error is error_pct. energy_uj: of an
    inference; energy_error: standard error of its samples, as a share. bit_exact, reference_exact:
    None where nothing was compared.
    """

    workload: str
    status: str
    cycles: int | None = None
    predicted_cycles: int | None = None
    error_pct: float | None = None
    utilization: float | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    energy_uj: float | None = None
    energy_error: float | None = None
    bit_exact: bool | None = None
    reference_exact: bool | None = None

    @property
    def predicted(self) -> bool:
        """Whether the cycles are the timing model's."""
        return self.cycles is None and self.predicted_cycles is not None

    @property
    def best_cycles(self) -> int | None:
        """Counted cycles where there are any, else predicted ones."""
        return self.predicted_cycles if self.cycles is None else self.cycles

    @property
    def dram_bytes(self) -> int | None:
        """Read and written."""
        if self.read_bytes is None or self.write_bytes is None:
            return None
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """One point. config: None where it is illegal, and then `reason` says why.

    smoke: whether the RTL of the point was proven on small kernels; None if it was not tried.
    area_ge to synth: what a synthesis found; `synth` is its target and effort.
    """

    label: str
    config: NpuConfig | None
    reason: str
    verilog_lines: int | None = None
    build_s: float | None = None
    smoke: bool | None = None
    area_ge: float | None = None
    fmax_mhz: float | None = None
    critical_ns: float | None = None
    sram_bits: int | None = None
    luts: int | None = None
    ffs: int | None = None
    dsps: int | None = None
    brams: int | None = None
    synth: str = ""
    results: tuple[Measured, ...] = ()

    @property
    def area_kge(self) -> float | None:
        """Thousands of gate equivalents, without memories."""
        return None if self.area_ge is None else self.area_ge / 1000

    @property
    def memory_kib(self) -> float | None:
        """On-chip memory: scratchpad, accumulator, parameters, table; KiB."""
        if self.config is None:
            return None
        small = self.config.param_bytes + self.config.table_bytes
        return self.config.spad_kib + self.config.acc_kib + small / 1024

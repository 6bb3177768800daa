"""Complex numbers as pairs of real ones: spectra, filters, rotated positions."""

import pytest
import torch
from torch import Tensor, nn

import systola
from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.importing import import_model
from sw.measure.accuracy import integers
from sw.models.catalog import pcc

FFT = torch.fft
X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))


class Of(nn.Module):
    """A function of a real tensor and of a complex parameter [6, 8]."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        made = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))
        self.factor = nn.Parameter(torch.complex(*made))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.factor)


def mixed(x, _):
    return FFT.fft(FFT.fft(x, dim=-1), dim=-2).real


def filtered(x, w):
    return FFT.irfft2(FFT.rfft2(x, norm="ortho") * w[:, :5], s=(6, 8), norm="ortho")


def odd(x, _):
    return FFT.irfft(FFT.rfft(x[..., :7]) * 2j, n=7) + FFT.irfft(FFT.rfft(x), n=5).sum()


def half_of_an_axis(x, _):
    return FFT.rfftn(x, dim=(1, 0), norm="forward").abs() + FFT.ifft(x, dim=1).imag[:, :4].sum()


def operator_of_modes(x, w):
    spectrum = FFT.rfft(x)
    out = torch.zeros(2, 4, 5, dtype=torch.complex64)
    out[:, :, :3] = torch.einsum("bix,iox->box", spectrum[:, :, :3], w.reshape(6, 2, 4)[:, :, :1])[
        :, :1
    ].expand(2, 4, 3)
    return FFT.irfft(out, n=8)


def rotated(x, _):
    turns = torch.polar(torch.ones(6, 4), torch.arange(24.0).reshape(6, 4) / 7)
    return torch.view_as_real(torch.view_as_complex(x.reshape(2, 6, 4, 2)) * turns).flatten(-2)


def arithmetic(x, w):
    z = torch.complex(x, x * 0.5 + 1)
    y = (z.conj() - w) / (w + 3) * (1 - 2j) / 2 + x - torch.exp(z * 0.1)
    return torch.cat([y.real, y.imag, (y * y.conj()).real, y.square().imag], -1)


def multiplied(x, w):
    z = torch.complex(x, x.flip(-1))
    return (z @ w.transpose(0, 1)).abs() + torch.mm(z[1], w.t()).real


def moved(x, w):
    z = torch.stack([FFT.fft(x), w.expand(2, 6, 8)], 1).permute(0, 2, 1, 3).reshape(2, 6, 16)
    return torch.view_as_real(z.roll(1, -1)[:, 1:].sum(1)).flatten(1)


def numbers(x, w):
    z = torch.complex(x, x * 2)
    y = (z + 3) - 2j + torch.add(z, w, alpha=0.5) + (1 - z) + (x + z)
    return torch.cat([y.real, y.imag], -1)


def indexed(x, _):
    z = torch.complex(x, x * 2)
    rows = torch.index_select(z, 1, torch.tensor([3, 1, 4])) + z[:, torch.tensor([0, 5, 2])]
    padded = torch.constant_pad_nd(torch.where(rows.real > 0, rows, z[:, :3]), [1, 1], 2.0)
    return torch.cat([padded.real, padded.imag, torch.cat([z, z * 2], 1)[:, 5:8].imag], -1)


def shifted(x, _):
    return FFT.fftshift(FFT.fft2(x)).real


def frames(x, _):
    z = torch.stft(x.reshape(2, 48), 16, 4, 12, torch.hann_window(12), return_complex=True)
    return z.abs()


def frames_of_both_sides(x, _):
    return torch.stft(x[0, 0], 8, onesided=False, normalized=True, return_complex=True,
                      window=torch.ones(8), center=False).real  # fmt: skip


ALL = [
    *(mixed, filtered, odd, half_of_an_axis, operator_of_modes, rotated, arithmetic, multiplied),
    *(moved, numbers, indexed, shifted, frames, frames_of_both_sides),
]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_the_module_computes_the_same_without_complex_numbers(function) -> None:
    module = Of(function).eval()
    graph = capture(module, (X,)).graph
    assert torch.allclose(graph(X)[0], module(X), atol=1e-4)
    inputs = [n for n in graph.graph.nodes if n.op == "call_function" and reaches(n)]
    assert inputs and not any(n.meta["val"].dtype.is_complex for n in inputs)


def reaches(node) -> bool:
    """Whether an input reaches a node: constants may be complex."""
    return node.op == "placeholder" or any(reaches(n) for n in node.all_input_nodes)


@pytest.mark.parametrize(
    ("function", "least"),
    [(mixed, 0.999), (filtered, 0.995), (rotated, 0.9999), (frames, 0.999)],
)
def test_integers_come_close(function, least: float) -> None:
    torch.manual_seed(0)
    module = Of(function).eval()
    calls = [(torch.randn(2, 6, 8),) for _ in range(17)]
    found = import_model(module, calls[0], calibration=calls[:16], policy="wide")
    assert pcc(integers(found, calls[16])[0], module(*calls[16]).detach().numpy()) >= least


def test_a_transform_that_only_its_real_part_is_read_of_is_one_product() -> None:
    compiled = systola.compile(Of(lambda x, _: FFT.fft(x).real), (X,))
    kinds = [op.kind for op in compiled.imported.graph.ops]
    assert kinds.count("CONV2D") == 1


def test_what_has_no_real_form_is_named() -> None:
    with pytest.raises(CompileError, match="angle of complex numbers"):
        systola.compile(Of(lambda x, _: torch.angle(FFT.fft(x))), (X,))


def test_a_transform_of_too_many_points_is_refused() -> None:
    x = torch.randn(1, 5000)
    with pytest.raises(CompileError, match=r"5000 points: at most 4096"):
        systola.compile(Of(lambda x, _: FFT.fft(x).real), (x,))

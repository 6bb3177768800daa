"""Padding and cuts that make windows exact, against the sizes PyTorch gives."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn import functional

from sw.compiler.frontend.windows import fit_windows, pool_pads

SIZE = st.integers(1, 24)
STEP = st.integers(1, 5)


@given(size=SIZE, kernel=STEP, stride=STEP, data=st.data())
def test_windows_fit_and_their_number_is_pytorchs(size, kernel, stride, data) -> None:
    padding = data.draw(st.integers(0, kernel // 2))
    ceil = data.draw(st.booleans())
    assume(size + 2 * padding >= kernel)
    theirs = functional.max_pool1d(torch.zeros(1, 1, size), kernel, stride, padding, 1, ceil)
    pads = pool_pads((size, size), (kernel,) * 2, (stride,) * 2, (padding,) * 2, ceil)
    kept, pad = fit_windows((size, size), (kernel,) * 2, (stride,) * 2, pads)
    assert pad[:2] == pad[2:] and kept[0] == kept[1] <= size and min(pad) >= 0
    room = kept[0] + pad[0] + pad[1] - kernel
    assert room % stride == 0 and room // stride + 1 == theirs.shape[-1]
    # The input is cut only where all of the padding behind it is already gone.
    assert kept[0] == size or pad[1] == 0

"""A depthwise 3x3 and a pointwise convolution, stripe by stripe; what is between stays on chip."""

from systola.language import Tensor, depthwise, dot, int8, keep, kernel, load, store, tiles


@kernel(result=lambda x, pw: int8[x.shape[0], x.shape[1], pw.shape[1]])
def separable(
    x: Tensor,
    dw: Tensor,
    pw: Tensor,
    out: Tensor,
    dw_scale: list[float],
    dw_bias: list[int],
    pw_scale: list[float],
    pw_bias: list[int],
    x_zero: int = 0,
    mid_zero: int = 0,
    out_zero: int = 0,
    rows: int = 2,
) -> None:
    height = x.shape[0]
    taps = load(dw)
    for r in tiles(height, rows):
        # A row more above and below, but for the image's own edges, which are padding.
        top, bottom = max(r.start - 1, 0), min(r.stop + 1, height)
        stripe = load(x[top:bottom])
        padding = (top - r.start + 1, r.stop + 1 - bottom, 1, 1)
        if r.start == 0:
            weights = load(pw)
        sums = depthwise(stripe, taps, padding=padding, x_zero=x_zero)
        mid = keep(sums.requantize(dw_scale, mid_zero, bias=dw_bias, low=mid_zero))
        for n in tiles(pw.shape[1], 4 * x.config.cols):
            done = dot(mid, weights[:, n], x_zero=mid_zero)
            store(out[r, :, n], done.requantize(pw_scale[n], out_zero, bias=pw_bias[n]))

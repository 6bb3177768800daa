"""What ONNX Runtime's transformer optimizer makes: attention, embeddings."""

from collections.abc import Callable, Sequence
from typing import Any

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.microsoft.integers import real
from sw.frontends.onnx.microsoft.writer import Writer

Rule = Callable[[Writer], None]

FLOAT = 1
"""ONNX's number of the type."""


def _heads(w: Writer, q: str, k: str, v: str, mask: str) -> None:
    """The attention of projected values [N, T, heads·size], as the node's result."""
    heads, causal = w.get("num_heads"), w.get("unidirectional", 0)
    if causal and mask:
        raise refused("a mask and unidirectional=1 together", "leave one of them out")
    attributes = {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": causal}
    if w.get("scale", 0.0):
        attributes["scale"] = w.get("scale")
    w.add("Attention", q, k, v, mask, to=w.result(), **attributes)


def _scores(w: Writer, mask: str, added: str) -> str:
    """What is added to the scores. mask: [N, T], 0 where a key is left out; added: [N, heads, S, T]
    or of sizes 1.
    """
    if not mask:
        return added
    # Lengths, and masks for each query, have other dimensions: they end here.
    kept = w.add("Einsum", w.add("Cast", mask, to_=FLOAT), equation="nt->nt")
    left = w.add("Sub", w.hold(1.0), kept)
    far = w.add("Mul", left, w.hold(w.get("mask_filter_value", -10000.0)))
    wide = w.add("Unsqueeze", far, w.hold([1, 2], "int64"))
    return w.add("Add", wide, added) if added else wide


def _attention(w: Writer) -> None:
    _projected(w, *w.inputs(6, 2))


def _quantized(w: Writer) -> None:
    """Weights are integers; inputs too, unless they are floats (`dynamic.py`)."""
    x, weight, bias, sx, sw, mask, zx, zw, past = w.inputs(9, 3)
    x = real(w, x, sx, zx) if sx else x
    _projected(w, x, real(w, weight, sw, zw, axis=-1), bias, mask, past, "")


def _projected(w: Writer, x: str, weight: str, bias: str, mask: str, past: str, added: str) -> None:
    """Attention of products with the weights of queries, keys and values in a row."""
    if past:
        raise refused("keys and values of earlier calls", "export the model without a cache")
    w.unwanted(1)
    w.only("do_rotary", 0)
    w.only("past_present_share_buffer", 0)
    sizes = w.get("qkv_hidden_sizes", [])
    y = w.add("MatMul", x, weight)
    if bias:
        y = w.add("Add", y, bias)
    split = (w.hold(sizes, "int64"),) if sizes else ()
    parts: dict[str, Any] = {} if sizes else {"num_outputs": 3}
    q, k, v = w.many("Split", (y, *split), w.names("split", 3), axis=-1, **parts)
    _heads(w, q, k, v, _scores(w, mask, added))


def _multi_head(w: Writer) -> None:
    q, k, v, bias, mask, added, *rest = w.inputs(10, 3)
    if any(rest):
        raise refused("keys and values of earlier calls", "export the model without a cache")
    w.unwanted(1, 2, 3)
    if bias:
        # The bias of all three in a row; each part is as long as what it is added to.
        lengths = [w.add("Shape", each, start=-1) for each in (q, k, v)]
        split = w.add("Concat", *lengths, axis=0)
        parts = w.many("Split", (bias, split), w.names("split", 3), axis=0)
        q, k, v = (w.add("Add", x, b) for x, b in zip((q, k, v), parts, strict=True))
    _heads(w, q, k, v, _scores(w, mask, added))


def _embeddings(w: Writer) -> None:
    ids, segments, words, places, kinds, gamma, beta, mask, positions = w.inputs(9, 1)
    tables = [(words, "", ""), (places, "", ""), (kinds, "", "")]
    _embedded(w, ids, segments, tables, gamma, beta, mask, positions)


def _quantized_embeddings(w: Writer) -> None:
    ids, segments, *rest = w.inputs(18, 1)
    names, scales, zeros = rest[:5], rest[6:11], rest[11:]
    tables = list(zip(names[:3], scales[:3], zeros[:3], strict=True))
    gamma, beta = (real(w, *each) for each in zip(names[3:], scales[3:], zeros[3:], strict=True))
    _embedded(w, ids, segments, tables, gamma, beta, rest[5], "")


def _embedded(
    w: Writer,
    ids: str,
    segments: str,
    tables: Sequence[tuple[str, str, str]],
    gamma: str,
    beta: str,
    mask: str,
    positions: str,
) -> None:
    """tables: those of words, places and kinds: values, and where they are integers their grid."""

    def row(table: tuple[str, str, str], at: str) -> str:
        values, scale, zero = table
        return w.add("Gather", real(w, values, scale, zero) if scale else values, at)

    words, places, kinds = tables
    if not (words[0] and places[0] and gamma and beta) or bool(segments) != bool(kinds[0]):
        raise refused("a table or a parameter of the norm is missing", "export it again")
    if not positions:
        length = w.add("Shape", ids, start=1, end=2)
        zero, one = w.hold(0, "int64"), w.hold(1, "int64")
        positions = w.add("Range", zero, w.add("Squeeze", length), one)
    total = w.add("Add", row(words, ids), row(places, positions))
    if segments:
        total = w.add("Add", total, row(kinds, segments))
    total = w.add("Identity", total, to=w.result(2)) if w.result(2) else total
    w.get("mask_index_type")
    epsilon = w.get("epsilon", 1e-12)
    w.add("LayerNormalization", total, gamma, beta, to=w.result(), epsilon=epsilon)
    if mask and w.result(1):
        # Lengths in the original; attention takes the mask as well, and nothing else does.
        if not w.readers(1) <= {"Attention", "QAttention"}:
            raise refused(f"lengths of texts ({w.result(1)!r}) that something else reads")
        w.add("Identity", mask, to=w.result(1))


ATTENTION: dict[str, Rule] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "EmbedLayerNormalization": _embeddings,
    "QAttention": _quantized,
    "QEmbedLayerNormalization": _quantized_embeddings,
}

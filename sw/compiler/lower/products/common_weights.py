"""Constant weights that several products have: steps of a recurrence, heads of a pyramid.

They get a name, under which they can stay on chip from the first of these layers to the last.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from hashlib import blake2b

from sw.compiler.kernels.base import LayerProgram


def name_common_weights(program: LayerProgram) -> LayerProgram:
    """The program, its products named after their weights where others have the same."""
    layers = list(program.layers)
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, layer in enumerate(layers):
        if layer.product_weights is not None:
            alike[layer.product_weights.shape].append(i)
    names: dict[int, str] = {}
    for several in alike.values():
        # Only weights whose shape others have are worth reading.
        for i in several if len(several) > 1 else ():
            weights = layers[i].product_weights
            assert weights is not None
            names[i] = f"weights {blake2b(weights.tobytes(), digest_size=8).hexdigest()}"
    users = Counter(names.values())
    for i, name in names.items():
        if users[name] > 1:
            layers[i] = layers[i].sharing(name)
    return replace(program, layers=tuple(layers))

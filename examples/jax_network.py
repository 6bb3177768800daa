"""Run a JAX function on the NPU, and compare with JAX.

    .venv/bin/python examples/jax_network.py
    .venv/bin/python examples/jax_network.py --device rtl --config tiny

The function is exported as StableHLO, quantized by its example arguments, and compiled.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import systola


def parameters(key: jax.Array, width: int) -> dict[str, jax.Array]:
    shapes = {"up": (width, 2 * width), "down": (2 * width, width)}
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(k, shape) / np.sqrt(shape[0])
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def network(weights: dict[str, jax.Array], given: dict[str, Any]) -> dict[str, jax.Array]:
    """A layer norm and an MLP with GELU, beside its input."""
    x = given["x"]
    y = jax.nn.standardize(x)
    y = jax.nn.gelu(y @ weights["up"]) @ weights["down"]
    return {"y": x + y, "probabilities": jax.nn.softmax(x + y)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--config", default="default", help="a preset: systola config list")
    args = parser.parse_args()

    weights = parameters(jax.random.key(0), 32)
    example = {"x": jax.random.normal(jax.random.key(1), (8, 32))}

    def function(given: dict[str, Any]) -> dict[str, jax.Array]:
        return network(weights, given)

    fast = systola.jax.compile(function, example, config=args.config, device=args.device)
    got, exact = fast(example), function(example)
    for name in exact:
        error = float(jnp.abs(got[name] - exact[name]).max() / jnp.abs(exact[name]).max())
        print(f"{name}: largest error {error:.2%} of the largest value")
        if error > 0.05:
            return 1
    print()
    print(fast.report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Damaged copies of a StableHLO file, each read in a fork: `python tests/stablehlo_mutations.py`.

Prints how each form ended: read, an error with its reason, or the parser's own end by a signal.
"""

import argparse
import os
import sys
from collections import Counter

import jax
import jax_cases as cases
from jax_networks import mlp, torch_mlp, weights_of
from test_frontends_stablehlo import mutated

from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.reading import read


def ended(data: bytes) -> str:
    """How reading ends: `read`, `error`, `other error`, or `signal N`."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            read(data)
            code = 0
        except StableHloError:
            code = 1
        except BaseException:
            code = 2
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return ("read", "error", "other error")[os.WEXITSTATUS(status)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    count = parser.parse_args().count
    weights = weights_of(torch_mlp())
    export = jax.export.export(jax.jit(lambda x: mlp(weights, x)))(cases.floats(2, 32))
    text = str(export.mlir_module()).encode()
    small = jax.export.export(jax.jit(lambda x: jax.nn.gelu(x)))(cases.floats(2, 3))
    forms = {
        "text": text,
        "bytecode": bytes(export.mlir_module_serialized),
        "small bytecode": bytes(small.mlir_module_serialized),
    }
    for name, data in forms.items():
        print(name, dict(Counter(map(ended, mutated(data, count, 7)))), flush=True)


if __name__ == "__main__":
    main()

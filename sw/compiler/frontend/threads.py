"""How PyTorch is run: on one thread, and without notices about what nobody uses here."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: the same sums everywhere, and no waiting for a second core that small
    layers cannot use (30 times faster on a busy machine).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def quiet(most: int = logging.WARNING) -> Iterator[None]:
    """Without warnings, and without logs up to level `most`.

    Imports have something to say about what nobody uses here; PyTorch logs the traces of errors
    that become errors of ours.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = logging.root.manager.disable
        logging.disable(most)
        try:
            yield
        finally:
            logging.disable(level)

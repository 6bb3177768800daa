"""Which bank of the scratchpad a word lies in."""

import functools
import itertools

WORD_BITS = 24
"""Most bits of a word's number."""


@functools.cache
def bank_columns(banks: int) -> tuple[int, ...]:
    """For each bit of a word's number, the bits of its bank's number that it inverts.

    banks: a power of two, 4 at least, 2^b. Each column is the least number that keeps two promises:

    - Any b successive columns are independent, so that words at any power-of-two pitch lie in
      all banks one after the other.
    - Successive words lie in different banks. From one to the next the bits 0…t change, so the
      columns 0…t must not add up to 0.

    The order of the banks within a row of words differs from row to row. Two streams of successive
    words meet now and then; with the same order everywhere one that has met the other stays behind
    it as long as that one moves slower.
    """
    bits = banks.bit_length() - 1
    columns = [1 << i for i in range(bits)]
    total = banks - 1
    while len(columns) < WORD_BITS:
        span = {0}
        for column in columns[len(columns) - bits + 1 :]:
            span |= {column ^ other for other in span}
        found = next(n for n in itertools.count(1) if n not in span and n != total)
        columns.append(found)
        total ^= found
    return tuple(columns)


def bank_of(word: int, banks: int) -> int:
    """The bank of word `word` of a scratchpad with `banks` banks."""
    bank = 0
    for i, column in enumerate(bank_columns(banks)[: word.bit_length()]):
        if word >> i & 1:
            bank ^= column
    return bank

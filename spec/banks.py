"""Which bank of the scratchpad a word lies in."""

import functools

WORD_BITS = 24
"""Most bits of a word's number."""

PATIENCE, WITH_DEPTHWISE = 2, 6
"""Refused cycles after which a client that reads goes first; more beside a depthwise engine, whose
two streams of words lose more by one that goes before them than others do by waiting."""


def patience(depthwise: bool) -> int:
    """`PATIENCE` with or without a depthwise engine."""
    return WITH_DEPTHWISE if depthwise else PATIENCE


@functools.cache
def bank_columns(banks: int) -> tuple[int, ...]:
    """For each bit of a word's number, the bits of its bank's number that it inverts.

    banks: a power of two, 4 at least, 2^b. Each column is the greatest number that keeps two
    promises:

    - Any b successive columns are independent, so that words at any power-of-two pitch lie in
      all banks one after the other.
    - Words that are one apart lie in different banks; where there are eight banks or more, also
      those that are two, or a row of all banks, apart. An access at any address takes two
      neighbours, and the depthwise engine reads two columns of the input at once.

    The order of the banks within a row of words differs from row to row. Two streams of successive
    words meet now and then; with the same order everywhere one that has met the other stays behind
    it as long as that one moves slower.
    """
    bits = banks.bit_length() - 1
    columns = [1 << i for i in range(bits)]
    apart = [1] if banks < 8 else [1, 2, banks]
    # What a row's number must not invert where such words lie in two rows.
    met = {
        low ^ (low + step) % banks for step in apart for low in range(banks) if low + step >= banks
    }
    carry = 0
    while len(columns) < WORD_BITS:
        span = {0}
        for column in columns[len(columns) - bits + 1 :]:
            span |= {column ^ other for other in span}
        found = next(n for n in reversed(range(banks)) if n not in span and carry ^ n not in met)
        columns.append(found)
        carry ^= found
    return tuple(columns)


def bank_of(word: int, banks: int) -> int:
    """The bank of word `word` of a scratchpad with `banks` banks."""
    bank = 0
    for i, column in enumerate(bank_columns(banks)[: word.bit_length()]):
        if word >> i & 1:
            bank ^= column
    return bank

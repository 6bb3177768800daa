"""The base class of every error that a user's input can cause."""


class SystolaError(Exception):
    """Bad input: the message says what, where, the value, and what to do."""

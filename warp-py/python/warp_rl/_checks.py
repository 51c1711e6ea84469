"""Checks of arguments that everything here is made with."""

from __future__ import annotations

import difflib
import operator
import sys
from collections.abc import Iterable
from typing import Any


#: Maximum number of steps in an episode: they are counted in int32.
MOST_STEPS = 2**31 - 1
#: Environments that are stepped together at most.
MOST_ENVS = 2**24
#: Threads that step or learn at most, as the native module has it.
MOST_THREADS = 1024
#: Where threads begin at most; cores are counted round.
MOST_CORES = 2**16
#: Letters of a value in an error at most.
_WIDEST = 200


def shown(value: Any) -> str:
    """A value in an error: on one line, and no longer than is of use."""
    line = " ".join(repr(value).split())
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]}..."


def whole(value: Any) -> int | None:
    """A whole number of any type; None for what is none, and for a bool, which is one to Python."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """An integer from `least` to `most`; otherwise ValueError or TypeError."""
    number = whole(value)
    if number is None:
        raise TypeError(f"{name} is {shown(value)}, but a whole number is needed")
    if number < least:
        raise ValueError(f"{name} is {number}, but at least {least} is needed")
    most = sys.maxsize if most is None else most
    if number > most:
        raise ValueError(f"{name} is {number}, but at most {most} are possible")
    return number


def one_of(name: str, value: Any, *known: Any) -> None:
    """Raises ValueError unless the value is one of those that are known."""
    try:
        is_known = value in known
    except ValueError:  # An array is not simply equal.
        is_known = False
    if not is_known:
        raise ValueError(f"{name} is {shown(value)}, but must be one of {', '.join(map(repr, known))}")


def device_of(device: Any) -> int | None:
    """The number of the GPU that "cuda" or "cuda:1" names, or torch's device of that name; None for "cpu"."""
    name, colon, number = str(device).partition(":")
    if (name, colon) == ("cpu", ""):
        return None
    if name == "cuda" and (number.isdecimal() or not colon):
        return int(number or 0)
    raise ValueError(f"device is {shown(device)}, but must be 'cpu', 'cuda', or 'cuda:1' and so on")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelled name: empty if no known name is similar."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f": did you mean {found[0]!r}?" if found else ""

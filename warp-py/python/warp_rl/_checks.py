"""Checks of arguments that everything here is made with."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from typing import Any


#: Maximum number of steps in an episode: they are counted in int32.
MOST_STEPS = 2**31 - 1
#: Environments that are stepped together at most.
MOST_ENVS = 2**24
#: Where threads begin at most; cores are counted round.
MOST_CORES = 2**16
#: Letters of a value in an error at most.
_WIDEST = 200


def shown(value: Any) -> str:
    """A value in an error: on one line, and no longer than is of use."""
    line = " ".join(repr(value).split())
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]}..."


def count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """An integer from `least` to `most`; otherwise ValueError or TypeError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}, but a whole number is needed") from None
    if number < least:
        raise ValueError(f"{name} is {number}, but at least {least} is needed")
    if most is not None and number > most:
        raise ValueError(f"{name} is {number}, but at most {most} are possible")
    return number


def one_of(name: str, value: Any, *known: Any) -> None:
    """Raises ValueError unless the value is one of those that are known."""
    if value not in known:
        raise ValueError(f"{name} is {shown(value)}, but must be one of {', '.join(map(repr, known))}")


def device_of(device: Any) -> int | None:
    """The number of the GPU that "cuda" or "cuda:1" names; None for "cpu"."""
    if device == "cpu":
        return None
    name, colon, number = str(device).partition(":")
    if name == "cuda" and (number.isdecimal() or not colon):
        return int(number or 0)
    raise ValueError(f"device is {shown(device)}, but must be 'cpu', 'cuda', or 'cuda:1' and so on")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelled name: empty if no known name is similar."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f": did you mean {found[0]!r}?" if found else ""

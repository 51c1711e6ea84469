"""Checks of arguments that everything here is made with."""

from __future__ import annotations

import operator
from typing import Any


def count(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`; else ValueError or TypeError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but a whole number is needed") from None
    if number < least:
        raise ValueError(f"{name} is {number}, but at least {least} is needed")
    return number


def one_of(name: str, value: Any, *known: Any) -> None:
    """Raises ValueError unless the value is one of those that are known."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}, but it is one of {', '.join(map(repr, known))}")

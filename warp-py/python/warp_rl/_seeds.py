"""Seeds: one number for all environments, one for each, or none."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Sequence

from ._checks import shown, whole

_LARGEST = 2**64 - 1


def of_each(seed: int | Sequence[int] | None, num_envs: int) -> list[int]:
    """The seed of every environment: `seed + i`, `seed[i]`, or random ones.

    Raises ValueError for a seed that is negative or of more than 64 bits, or another number of seeds, TypeError for what is no number.
    """
    if seed is None:
        first = secrets.randbits(62)
        return [first + i for i in range(num_envs)]
    # An array of one number is a sequence, though some libraries take it for a number.
    alone = None if getattr(seed, "shape", ()) else whole(seed)
    if alone is not None:
        first = _checked(alone)
        # Seeds are numbers of 64 bits, and go round.
        return [(first + i) & _LARGEST for i in range(num_envs)]
    try:
        each = [operator.index(one) for one in seed]  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"seed is {shown(seed)}, but a whole number or one for each environment is needed") from None
    if len(each) != num_envs:
        raise ValueError(f"seed has {len(each)} numbers, but there are {num_envs} environments")
    return [_checked(one) for one in each]


def of_one(seed: int | None) -> list[int]:
    """The seed of an only environment, or a random one.

    Raises ValueError for a seed that is negative or of more than 64 bits, TypeError for what is no number.
    """
    if seed is not None and whole(seed) is None:
        raise TypeError(f"seed is {shown(seed)}, but a whole number is needed")
    return of_each(seed, 1)


def _checked(seed: int) -> int:
    if seed < 0:
        raise ValueError(f"seed is {seed}, but seeds are not negative")
    if seed > _LARGEST:
        raise ValueError(f"seed is {seed}, but seeds have 64 bits")
    return seed

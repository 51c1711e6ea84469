"""What EnvPool's answers have beside what every task has: a key of its own for some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class OwnKey:
    """A key of `info`, and of what dm_env's interface observes."""

    name: str
    #: The shape of one environment's row of float32.
    item: tuple[int, ...]
    #: The shape that EnvPool's description of its arrays says.
    declared: list[int]
    #: The rows of an answer: by NumPy or what speaks like it, of observations, the rest of `info` and the configuration.
    rows: Callable[[Any, Any, dict[str, Any], dict[str, Any]], Any]


def _angles(xp: Any, obs: Any, info: dict[str, Any], config: dict[str, Any]) -> Any:
    # Of both links: their cosines and sines come first.
    return xp.arctan2(obs[:, 1:4:2], obs[:, 0:4:2])


def _probability(xp: Any, obs: Any, info: dict[str, Any], config: dict[str, Any]) -> Any:
    of_a_step = np.float32(1 / 3 if config["is_slippery"] else 1)
    return xp.where(info["elapsed_step"] == 0, np.float32(1), of_a_step)


#: By environment.
OWN = {
    "acrobot": OwnKey("state", (2,), [2], _angles),
    "cliff_walking": OwnKey("prob", (), [-1], _probability),
}

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
    #: The rows of an answer, of its observations and of what the native module says of the task.
    rows: Callable[[Any, dict[str, Any]], np.ndarray]


def _angles(obs: Any, _: dict[str, Any]) -> np.ndarray:
    # Of both links: their cosines and sines come first.
    return np.arctan2(obs[:, 1:4:2], obs[:, 0:4:2])


def _probability(_: Any, info: dict[str, Any]) -> np.ndarray:
    return info["prob"].astype(np.float32)


#: By environment.
OWN = {
    "acrobot": OwnKey("state", (2,), [2], _angles),
    "cliff_walking": OwnKey("prob", (), [-1], _probability),
}

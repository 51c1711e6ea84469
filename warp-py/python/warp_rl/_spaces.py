"""Gymnasium's spaces for what an environment says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

Description = dict[str, Any]


def action(group: Description) -> spaces.Space[Any]:
    """What one agent of a group may do."""
    return _space(group["action"])


def observation(group: Description, *, whole: bool = False, integer: type = np.int64) -> spaces.Space[Any]:
    """What one agent of a group sees, without its mask: a number, or an array of float32.

    `whole`: an array of whole numbers, of the type `integer`.
    """
    said = group["observation"]
    if said["kind"] == "dict":
        parts = {key: part for key, part in said["parts"].items() if key != "action_mask"}
        if len(parts) == 1 and (only := next(iter(parts.values())))["kind"] == "discrete":
            said = only
        else:
            width = group["width"]
            return spaces.Box(-np.inf, np.inf, (width,), np.float32)
    if said["kind"] == "box" and whole:
        low, high = (_bounds(said, side).astype(integer) for side in ("low", "high"))
        return spaces.Box(low, high, dtype=integer)
    return _space(said)


def _space(said: Description) -> spaces.Space[Any]:
    kind = said["kind"]
    if kind == "discrete":
        return spaces.Discrete(said["n"])
    if kind == "multi_discrete":
        return spaces.MultiDiscrete(said["sizes"])
    return spaces.Box(_bounds(said, "low"), _bounds(said, "high"), dtype=np.float32)


def _bounds(said: Description, side: str) -> np.ndarray:
    return np.array(said[side], np.float32).reshape(said["shape"])

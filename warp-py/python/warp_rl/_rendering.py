"""Images of environments, as the command `warp render` draws them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _native
from ._checks import shown
from ._foreign import as_numpy
from ._spec import settings
from ._tasks import Task

#: What can be asked for.
MODES = ("rgb_array",)
#: Frames a second, by environment; toy texts think, the others move.
_FRAMES = {"cartpole": 50, "acrobot": 15, "mountain_car": 30, "continuous_mountain_car": 30, "pendulum": 30}


def metadata(task: Task) -> dict[str, Any]:
    """What an environment's metadata says of rendering."""
    return {"render_modes": list(MODES), "render_fps": _FRAMES.get(task.env, 4)}


class Painter:
    """Draws the environments of a pool: it is told of their actions, and looks at their states."""

    def __init__(self, task: Task, config: dict[str, Any], num_envs: int) -> None:
        self._made_with = (task, config, num_envs)
        self._picture = _native.Picture(task.env, settings(task, config))
        self._acts: np.ndarray | None = None
        self._num_envs = num_envs

    def __reduce__(self) -> Any:
        return Painter, self._made_with, {"_acts": self._acts}

    def note(self, actions: Any, env_id: Any = None) -> None:
        """Remembers what all environments, or those of `env_id`, did last."""
        ids = np.arange(self._num_envs) if env_id is None else as_numpy(env_id).astype(np.intp)
        rows = as_numpy(actions).reshape(len(ids), -1) if len(ids) else np.zeros((0, 1))
        if self._acts is None or self._acts.shape[1] != rows.shape[1]:
            self._acts = np.full((self._num_envs, rows.shape[1]), np.nan)
        self._acts[ids] = rows

    def pictures(
        self, state: dict[str, np.ndarray], env_id: Any = None, width: int = 600, height: int | None = None
    ) -> tuple[np.ndarray, ...]:
        """Images of all environments, or of those in `env_id`: uint8 `[height, width, 3]` each.

        They are as high as they need to be, or as `height` says, with a margin around them then.
        """
        ids = range(self._num_envs) if env_id is None else self._checked(env_id)
        if height is None:
            return tuple(self._drawn(state, i, width) for i in ids)
        return tuple(self._fitted(state, i, width, height) for i in ids)

    def _drawn(self, state: dict[str, np.ndarray], i: int, width: int) -> np.ndarray:
        return self._picture.draw(state, i, self._act(i), width=width)

    def _fitted(self, state: dict[str, np.ndarray], i: int, width: int, height: int) -> np.ndarray:
        drawn = self._drawn(state, i, width)
        if drawn.shape[0] > height:
            drawn = self._drawn(state, i, max(width * height // drawn.shape[0], 1))
        drawn = drawn[:height, :width]
        top, left = (height - drawn.shape[0]) // 2, (width - drawn.shape[1]) // 2
        whole = np.empty((height, width, 3), np.uint8)
        whole[:] = drawn[0, 0]
        whole[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
        return whole

    def _checked(self, env_id: Any) -> list[int]:
        ids = np.asarray(env_id)
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"env_id is {shown(env_id)}, but whole numbers are needed")
        for i in ids.reshape(-1).tolist():
            if not 0 <= i < self._num_envs:
                raise ValueError(f"env_id holds {i}, but environments are numbered from 0 to {self._num_envs - 1}")
        return ids.reshape(-1).tolist()

    def _act(self, i: int) -> list[float] | None:
        if self._acts is None or np.isnan(self._acts[i]).any():
            return None
        return self._acts[i].tolist()

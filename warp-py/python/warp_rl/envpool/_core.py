"""What both interfaces share: sending, receiving, and who is who."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _rendering
from .._checks import count, shown
from .._pooled import Pickled
from ._spec import EnvSpec, Refused, asserting, check


#: Width and height of EnvPool's pictures, by environment; others have as much height as they need.
_SIZES = {
    "acrobot": (500, 500),
    "cartpole": (600, 400),
    "continuous_mountain_car": (600, 400),
    "mountain_car": (600, 400),
    "pendulum": (500, 500),
}
_INT32 = np.iinfo(np.int32)
#: Pixels a side at most.
_MOST_PIXELS = 8192


def _pixels(name: str, given: dict[str, Any], default: int | None) -> int | None:
    """A picture's width or height; else `Refused` or `RefusedType`."""
    if given.get(name) is None:
        return default
    with asserting():
        return count(name, given[name], 1, _MOST_PIXELS)


def _cast(name: str, given: Any, dtype: Any, xp: Any) -> Any:
    """An array of `xp` of this type: numbers are rounded towards 0, as EnvPool does it.

    Raises ValueError for numbers that int32 does not have; a program's, which are not known yet, become -1, which no
    environment takes.
    """
    array = xp.asarray(given)
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}, but numbers are needed")
    if xp is not np:
        from .._xla import as_int32

        return as_int32(array) if dtype == np.int32 else array.astype(dtype)
    with np.errstate(over="ignore"):  # What is infinite is refused.
        if dtype == np.int32:
            _check_int32(name, array)
        return array.astype(dtype)


def _check_int32(name: str, array: np.ndarray) -> None:
    # As real numbers, for NumPy 2.0.0 crashes where bounds are none of the array's type.
    numbers = np.trunc(array.astype(np.float64))
    outside = ~((_INT32.min <= numbers) & (numbers <= _INT32.max))
    if outside.any():
        raise ValueError(f"{name} holds {array[outside].reshape(-1)[0]}, which is out of range")


class Core(Pickled):
    """Environments of a task, behind neither interface."""

    def __init__(self, task_id: str, **kwargs: Any) -> None:
        self.spec: Any = EnvSpec(task_id, **kwargs)
        config = self.spec.config
        self.config: dict[str, Any] = config._asdict()
        self.num_envs: int = config.num_envs
        self.render_mode = kwargs.get("render_mode")
        check(not kwargs.get("from_pixels"), "from_pixels is True, but observations are no images here")
        check(self.render_mode in (None, *_rendering.MODES), f"render_mode is {self.render_mode!r}, but it is None or "
              "'rgb_array'")
        self._render_env_id = kwargs.get("render_env_id", 0)
        width, height = _SIZES.get(self.spec.task.env, (480, None))
        self._render_width = _pixels("render_width", kwargs, width)
        self._render_height = _pixels("render_height", kwargs, height)
        self._painter: Any = None
        if self.render_mode is not None:
            self._painter = _rendering.Painter(self.spec.task, self.spec.own, self.num_envs)
        self.all_env_ids = np.arange(self.num_envs, dtype=np.int32)
        self.is_async = config.batch_size < config.num_envs
        offset = config.thread_affinity_offset
        self._action_dtype = np.float32 if self.spec.action_space.dtype.kind == "f" else np.int32
        self._open(
            name=self.spec.task.env,
            config=self.spec.own,
            seeds=self.spec.seeds,
            num_threads=config.num_threads,
            first_core=None if offset < 0 else offset,
            max_episode_steps=self.spec.max_episode_steps,
            batch_size=config.batch_size,
            integers="int32",
            whole=self.spec.task.whole,
            of_task=False,
            with_masks=False,
        )

    def send(self, action: Any, env_id: Any = None) -> None:
        """Sends environments off: an array of actions and who they are of, or a dictionary of both.

        `env_id` stands for the dictionary's.
        """
        action, env_id = self._as_orders(action, env_id, np)
        self._pool.send(action, env_id)
        self._note(action, env_id)

    def _exchanged(self, action: Any, env_id: Any) -> Any:
        """The answer to `send`, then `recv`; nothing is sent if too few environments would be under way."""
        action, env_id = self._as_orders(action, env_id, np)
        answer = self._pool.exchange(action, env_id)
        self._note(action, env_id)
        return answer

    def _note(self, action: Any, env_id: Any) -> None:
        if self._painter is not None:
            self._painter.note(action, env_id)

    def _as_orders(self, action: Any, env_id: Any, xp: Any) -> tuple[Any, Any]:
        """Actions and who they are of, as arrays of `xp`, NumPy or what speaks like it."""
        ids = None if env_id is None else _cast("env_id", env_id, np.int32, xp)
        if isinstance(action, dict):
            return self._of_dict(action if ids is None else {**action, "env_id": ids}, xp)
        return _cast("action", action, self._action_dtype, xp), self.all_env_ids if ids is None else ids

    def _of_dict(self, given: dict[str, Any], xp: Any) -> tuple[Any, Any]:
        wanted = {"env_id": np.int32, "players.env_id": np.int32, "action": self._action_dtype}
        players = given.get("players", {})
        check(isinstance(players, Mapping), f"action['players'] is {shown(players)}, but a dictionary is needed")
        flat = {**given, **{f"players.{key}": value for key, value in players.items()}}
        for key, dtype in wanted.items():
            if key == "players.env_id" and key not in flat:
                continue
            check(key in flat, f"action lacks the key {key!r}")
            flat[key] = xp.asarray(flat[key])
            check(flat[key].dtype == dtype, f"action[{key!r}] has dtype {flat[key].dtype}, but {np.dtype(dtype)} is needed")
        return flat["action"], flat["env_id"]

    def async_reset(self) -> None:
        """Sends every environment off to begin an episode."""
        self._pool.async_reset()

    def _with_own(self, obs: Any, info: dict[str, Any], xp: Any) -> dict[str, Any]:
        """What is known of a step, with what its task says beside."""
        own = self.spec.own_key
        return info if own is None else {**info, own.name: own.rows(xp, obs, info, self.config)}

    def _renewed(self, env_id: Any) -> Any:
        """The answer of environments that begin an episode, all unless some are named; as in `_exchanged`."""
        return self._pool.renew(None if env_id is None else _cast("env_id", env_id, np.int32, np))

    def seed(self, seed: Any = None) -> list[int]:
        """The seeds: they are given when the environments are made."""
        return list(self._pool.seeds)

    def xla(self) -> Any:
        """A handle and three functions that JAX can compile: `handle, recv, send, step`.

        `recv(handle)` gives a handle and what `recv` does, `send(handle, action, env_id=None)` a handle, and `step`
        is both. Handles keep calls in order: each goes into the next one. A program on a GPU copies actions down and
        answers up; environments on the GPU (`warp_rl.make(..., device="cuda").xla()`) need no copies.
        """
        try:
            from ._xla import functions
        except ImportError as error:
            raise RuntimeError(f"jax is needed for xla(): {error}") from None
        return functions(self)

    def _as_answer(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any], xp: Any) -> Any:
        """What `recv` gives, of arrays of `xp`."""
        raise NotImplementedError

    def render(self, env_ids: Any = None, camera_id: Any = None) -> np.ndarray:
        """Pictures of those of `env_ids`, or of `render_env_id`: uint8 `[n, height, width, 3]`."""
        if self._painter is None:
            raise Refused("render_mode is None, so nothing is drawn")
        check(camera_id is None, f"camera_id is {camera_id!r}, but there are no cameras")
        ids = self._render_env_id if env_ids is None else env_ids
        size = (self._render_width or 480, self._render_height)
        return np.stack(self._painter.pictures(self._pool.get_state(), ids, *size))

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.config.items())
        name = self.spec.task.id.split("-")[0]
        return f"{name}{type(self).__name__}({inner})"

    # Gymnasium's would ask for what EnvPool's description lacks.
    __str__ = __repr__

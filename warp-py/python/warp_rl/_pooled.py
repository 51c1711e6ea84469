"""What environments of one agent and of several have in common: a pool of the native module's that moves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from . import _native, _seeds
from ._checks import count
from ._spec import settings
from ._tasks import Task


def mode_of(autoreset_mode: str | AutoresetMode) -> AutoresetMode:
    """The mode of this name: "next_step", "same_step" or "disabled", or Gymnasium's own member."""
    if isinstance(autoreset_mode, AutoresetMode):
        return autoreset_mode
    named = {"next_step": "NEXT_STEP", "same_step": "SAME_STEP", "disabled": "DISABLED"}
    if autoreset_mode in named:
        return AutoresetMode[named[autoreset_mode]]
    try:
        return AutoresetMode(autoreset_mode)
    except ValueError:
        known = ", ".join(repr(name) for name in named)
        raise ValueError(f"autoreset_mode is {autoreset_mode!r}, but it is one of {known}") from None


def checked_mask(mask: Any, num_envs: int) -> np.ndarray:
    """`options["reset_mask"]`; else TypeError or ValueError, as Gymnasium has them."""
    name = "options['reset_mask']"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{name} is {mask!r}, but an array of NumPy's is needed")
    if mask.dtype != np.bool_:
        raise TypeError(f"{name} has dtype {mask.dtype}, but bool is needed")
    if mask.shape != (num_envs,):
        raise ValueError(f"{name} has shape {mask.shape}, but ({num_envs},) is needed")
    if not mask.any():
        raise ValueError(f"{name} is false everywhere, but one environment at least is to be reset")
    return mask


class Pickled:
    """One environment that is pickled with all it holds, and its pool by its state."""

    #: What it was made with, by position and by name.
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]
    _pool: Any

    def __getstate__(self) -> dict[str, Any]:
        held = {key: value for key, value in vars(self).items() if key not in ("_pool", "_painter")}
        return {"held": held, "state": self._pool.get_state()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        given, named = saved["held"]["_made_with"]
        self.__init__(*given, **named)  # type: ignore[misc]
        vars(self).update(saved["held"])
        self._pool.set_state(saved["state"])


class Pooled:
    """Environments of a pool. What differs is how its answers are shown."""

    num_envs: int
    #: What it was made with, `seed` apart, and the name that goes first.
    _arguments: dict[str, Any]
    _pool: Any

    def _open_pool(
        self, task: Task, seed: Any, config: dict[str, Any], *, limit: int | None, copy: bool, **form: Any
    ) -> Any:
        """The pool on the processor; `form` says what its answers look like."""
        given = self._arguments
        batch_size = given["batch_size"]
        offset = count("thread_affinity_offset", given["thread_affinity_offset"], -1)
        return _native.Pool(
            task.env,
            settings(task, config),
            _seeds.of_each(seed, self.num_envs),
            num_threads=count("num_threads", given["num_threads"], 0),
            first_core=None if offset < 0 else offset,
            autoreset_mode=given["autoreset_mode"],
            max_episode_steps=limit,
            batch_size=None if batch_size is None else count("batch_size", batch_size),
            copy=copy,
            **form,
        )

    def _begin(self, seed: int | Sequence[int] | None, options: dict[str, Any] | None) -> Any:
        """Begins an episode in every environment, or where `options["reset_mask"]` is true: the pool's answer."""
        mask = None if options is None else options.get("reset_mask")
        seeds = None if seed is None else _seeds.of_each(seed, self.num_envs)
        if mask is None:
            if seeds is not None:
                self._pool.seed(seeds)
            return self._pool.reset()
        mask = checked_mask(mask, self.num_envs)
        if seeds is not None:
            chosen = np.flatnonzero(mask)
            self._pool.seed_some(chosen, [seeds[i] for i in chosen])
        return self._pool.reset_where(mask)

    def async_reset(self, env_id: Any = None) -> None:
        """Sends every environment, or those of `env_id`, off to begin an episode."""
        self._pool.async_reset(env_id)

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Sends environments off with their actions: those of `env_id`, or of the last `recv`, or all.

        Raises RuntimeError or ValueError for one that is under way.
        """
        self._pool.send(actions, env_id)

    @property
    def stream(self) -> int:
        """The handle of the stream that everything is ordered on, on a GPU; AttributeError elsewhere."""
        raise AttributeError("device is 'cpu', which has no stream")

    def get_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that the environments' futures depend on, a row for each, by name."""
        return self._pool.get_state()

    def set_state(self, state: dict[str, Any], env_id: Any = None) -> None:
        """Puts back what `get_state` gave, or some of its arrays, into all environments or `env_id`."""
        self._pool.set_state(state, env_id)

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "state": self.get_state()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        arguments = dict(saved["arguments"])
        self.__init__(arguments.pop("task_id"), seed=0, **arguments)  # type: ignore[misc]
        self.set_state(saved["state"])

    def __len__(self) -> int:
        return self.num_envs

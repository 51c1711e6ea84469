"""Environments for Stable-Baselines3: `warp_rl.sb3.make("CartPole-v1", 64)` is a `VecEnv` of its."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from . import _seeds
from ._checks import one_of
from ._vector import VectorEnv


#: What the library expects: it keeps observations over a step, for one.
_DECIDED: dict[str, Any] = {"autoreset_mode": "same_step", "batch_size": None, "output": "numpy", "copy": True}


class Sb3VecEnv(VecEnv):
    """Environments that are reset in the step that ends an episode.

    The dictionary of such a row has `terminal_observation` and `TimeLimit.truncated`; others are empty.
    """

    def __init__(self, task_id: str, num_envs: int, **kwargs: Any) -> None:
        for name, value in _DECIDED.items():
            one_of(name, kwargs.pop(name, value), value)
        self.envs = VectorEnv(task_id, num_envs=num_envs, **_DECIDED, **kwargs)
        self.render_mode = self.envs.render_mode
        #: What was set for one of them, by name; the base asks for attributes when it is made.
        self._own: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        super().__init__(num_envs, self.envs.single_observation_space, self.envs.single_action_space)
        self._next_seeds: list[int] | None = None
        self._actions: Any = None

    def reset(self) -> Any:
        """Begins an episode in every environment; the infos are in `reset_infos`."""
        obs, info = self.envs.reset(seed=self._next_seeds)
        self._next_seeds = None
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return obs

    def step_async(self, actions: Any) -> None:
        """Takes the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Moves every environment."""
        obs, reward, terminated, truncated, info = self.envs.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        dones = terminated | truncated
        if dones.any():
            last = info["final_obs"]
            for i in np.flatnonzero(dones):
                infos[i] = {"terminal_observation": last[i], "TimeLimit.truncated": bool(truncated[i])}
        return obs, reward, dones, infos

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """The seeds that the next `reset` begins with."""
        self._next_seeds = _seeds.of_each(seed, self.num_envs)
        return list(self._next_seeds)

    def close(self) -> None:
        """Lets go of the environments."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of each environment of `indices`; spaces are those of one."""
        alone = f"single_{attr_name}" if attr_name in ("observation_space", "action_space") else attr_name
        own = [self._own[i] for i in self._get_indices(indices)]
        return [set_for[attr_name] if attr_name in set_for else getattr(self.envs, alone) for set_for in own]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets an attribute for each environment of `indices`, for whoever asks `get_attr`."""
        for i in self._get_indices(indices):
            self._own[i][attr_name] = value

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Calls a method of the environments once, and gives its result for each of `indices`.

        "render" gives each its picture.
        """
        chosen = list(self._get_indices(indices))
        if method_name == "render":
            return list(self.envs.render(chosen) or [None] * len(chosen))
        result = getattr(self.envs, method_name)(*args, **kwargs)
        return [result for _ in chosen]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """An image of each environment."""
        return self.env_method("render")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Always False: there are no single environments to wrap."""
        return [False for _ in self._get_indices(indices)]


def make(task_id: str, num_envs: int, **kwargs: Any) -> Sb3VecEnv:
    """Environments of a task for Stable-Baselines3; arguments as `warp_rl.make` has them.

    Episodes end and begin in the same step, and answers are new NumPy arrays of all environments: other values of
    `autoreset_mode`, `batch_size`, `output` and `copy` are refused.
    """
    return Sb3VecEnv(task_id, num_envs, **kwargs)

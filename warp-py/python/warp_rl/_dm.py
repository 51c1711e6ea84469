"""dm_env's interface: one environment, or many as one."""

from __future__ import annotations

import secrets
from typing import Any

import dm_env
import numpy as np
from dm_env import specs
from gymnasium import spaces

from ._single import SingleEnv
from ._spec import EnvSpec


def array_spec(space: spaces.Space[Any], name: str, integer: type = np.int64) -> Any:
    """dm_env's spec of a space; of a dictionary one spec for each of its parts."""
    if isinstance(space, spaces.Dict):
        return {key: array_spec(part, f"{name}.{key}", integer) for key, part in space.items()}
    if isinstance(space, spaces.Discrete):
        return specs.DiscreteArray(int(space.n), integer, name)
    if isinstance(space, spaces.MultiDiscrete):
        return specs.BoundedArray(space.shape, integer, 0, space.nvec - 1, name)
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)  # type: ignore[attr-defined]


class DmEnv(dm_env.Environment):
    """One environment of a task.

    An episode that ends has discount 0, one that is cut by its time limit 1; a step after its end begins
    the next one.
    """

    def __init__(self, task_id: str, *, seed: int | None = None, **config: Any) -> None:
        described = EnvSpec(task_id, **config)
        config.pop("max_episode_steps", None)
        self._env = SingleEnv(task_id, max_episode_steps=described.max_episode_steps, **config)
        if seed is not None:
            self._env.reseed(seed)
        self._observation_spec = array_spec(described.observation_space, "observation")
        self._action_spec = array_spec(described.action_space, "action")
        self._dtype = getattr(self._observation_spec, "dtype", None)
        self._is_over = True

    def reset(self) -> dm_env.TimeStep:
        """Begins an episode."""
        obs, _ = self._env.reset()
        self._is_over = False
        return dm_env.restart(self._seen(obs))

    def step(self, action: Any) -> dm_env.TimeStep:
        """Moves by one step; begins an episode instead if none is on."""
        if self._is_over:
            return self.reset()
        obs, reward, terminated, truncated, _ = self._env.step(action)
        self._is_over = terminated or truncated
        seen = self._seen(obs)
        if terminated:
            return dm_env.termination(reward, seen)
        if truncated:
            return dm_env.truncation(reward, seen)
        return dm_env.transition(reward, seen)

    def _seen(self, obs: Any) -> Any:
        return np.asarray(obs, self._dtype)

    def observation_spec(self) -> Any:
        """What the agent sees."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """What the agent may do."""
        return self._action_spec

    def close(self) -> None:
        """Lets go of the environment."""
        self._env.close()


def make_dm(task_id: str, num_envs: int | None = None, **kwargs: Any) -> Any:
    """One environment behind dm_env's interface; with `num_envs`, that many in one, as in EnvPool.

    Without a seed, a random one is used. With `num_envs`, seeds are int32.
    """
    if num_envs is None:
        return DmEnv(task_id, **kwargs)
    from .envpool import DMEnvPool

    seed = kwargs.pop("seed", None)
    kwargs["seed"] = secrets.randbits(30) if seed is None else seed
    kwargs["batch_size"] = kwargs.get("batch_size") or 0
    return DMEnvPool(task_id, num_envs=num_envs, **kwargs)

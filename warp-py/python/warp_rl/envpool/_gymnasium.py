"""EnvPool behind Gymnasium's interface; spaces are those of one environment."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from .. import _rendering
from .._pooled import checked_mask, mask_of
from ._core import Core
from ._spec import asserting, check


class GymnasiumEnvPool(Core, gymnasium.vector.VectorEnv, gymnasium.Env):  # type: ignore[misc]
    """Environments of a task: `reset`, `step`, or `async_reset`, `send` and `recv`.

    Gymnasium's wrappers take them, those of one environment as well as those of many.
    """

    #: What older wrappers ask for.
    is_vector_env = True
    #: Gymnasium closes what could not be made, too, unless this says that there is nothing to close.
    closed = True

    def __init__(self, task_id: str, **kwargs: Any) -> None:
        super().__init__(task_id, **kwargs)
        self.metadata = {**_rendering.metadata(self.spec.task), "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.observation_space = self.single_observation_space = self.spec.observation_space
        self.action_space = self.single_action_space = self.spec.action_space
        self.closed = False

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Waits for the environments that are finished first: five arrays, or two after a reset."""
        obs, reward, terminated, truncated, info = self._as_answer(*self._pool.recv(), np)
        return (obs, info) if reset else (obs, reward, terminated, truncated, info)

    def _as_answer(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any], xp: Any) -> Any:
        """What `recv` gives, of arrays of `xp`."""
        return obs, reward, terminated, truncated, self._told(obs, info, xp)

    def _told(self, obs: Any, info: dict[str, Any], xp: Any) -> dict[str, Any]:
        info["players"] = {"env_id": info["env_id"]}
        return self._with_own(obs, info, xp)

    def step(self, action: Any, env_id: Any = None) -> Any:
        """`send`, then `recv`."""
        return self._as_answer(*self._exchanged(action, env_id), np)

    def reset(
        self,
        env_id: Any = None,
        *,
        seed: Any = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in all environments, in those of `env_id`, or where `reset_mask` is true."""
        if seed is not None:
            warnings.warn("seed is given to make(), and ignored by reset()", UserWarning, stacklevel=2)
        with asserting():
            mask = mask_of(options)
        if mask is not None:
            check(env_id is None, "env_id and options['reset_mask'] are both given, but one of them is needed")
            env_id = np.flatnonzero(checked_mask(np.asarray(mask), self.num_envs)).astype(np.int32)
        if self.is_async and env_id is None:
            # Everything that is under way is let go.
            obs, info = self._pool.reset()
            return obs, self._told(obs, info, np)
        obs, *_, info = self._as_answer(*self._renewed(env_id), np)
        return obs, info

    def close_extras(self, **_: Any) -> None:
        """Lets go of the environments."""
        self._pool.close()


EnvPool = GymnasiumEnvPool

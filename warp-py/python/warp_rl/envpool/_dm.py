"""EnvPool behind dm_env's interface: a batch of time steps in one."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import dm_env
import numpy as np
from dm_env import specs

from .._dm import array_spec
from ._core import Core
from ._keys import OWN, OwnKey
from ._spec import EnvSpec

_STATES = {
    name: namedtuple("State", ["env_id", "players", "obs", *([name] if name else [])])
    for name in ("", *(own.name for own in OWN.values()))
}
_Players = namedtuple("players", ["env_id"])
_INT32 = np.iinfo(np.int32)
_FLOAT32 = np.finfo(np.float32)


def observation_spec(spec: EnvSpec) -> Any:
    """What one environment shows: who it is, and what its agent sees."""
    who = specs.BoundedArray((), np.int32, _INT32.min, _INT32.max, "env_id")
    own = spec.own_key
    rows = [] if own is None else [specs.BoundedArray(own.item, np.float32, _FLOAT32.min, _FLOAT32.max, own.name)]
    return _state_type(own)(who, _Players(who), array_spec(spec.observation_space, "obs", np.int32), *rows)


def _state_type(own: OwnKey | None) -> Any:
    return _STATES["" if own is None else own.name]


class DMEnvPool(Core, dm_env.Environment):
    """Environments of a task: step_type is 0 where an episode begins and 2 where it ends."""

    def __init__(self, task_id: str, **kwargs: Any) -> None:
        super().__init__(task_id, **kwargs)

    def recv(self, reset: bool = False, return_info: bool = True) -> dm_env.TimeStep:
        """Waits for the environments that are finished first."""
        return self._as_answer(*self._pool.recv(), np)

    def step(self, action: Any, env_id: Any = None) -> dm_env.TimeStep:
        """`send`, then `recv`."""
        return self._as_answer(*self._exchanged(action, env_id), np)

    def reset(self, env_id: Any = None) -> dm_env.TimeStep:
        """Begins an episode in all environments, or in those of `env_id`."""
        if self.is_async and env_id is None:
            obs, info = self._pool.reset()
            nothing = np.zeros(len(info["env_id"]), np.float32)
            never = np.zeros(len(info["env_id"]), np.bool_)
            return self._as_answer(obs, nothing, never, never, info, np)
        return self._as_answer(*self._renewed(env_id), np)

    def _as_answer(
        self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any], xp: Any
    ) -> dm_env.TimeStep:
        """What `recv` gives, of arrays of `xp`."""
        done = terminated | truncated
        step_type = xp.where(info["elapsed_step"] == 0, 0, xp.where(done, 2, 1)).astype(np.int32)
        discount = 1.0 - done.astype(np.float32)
        own = self.spec.own_key
        rows = [] if own is None else [self._with_own(obs, info, xp)[own.name]]
        seen = _state_type(own)(info["env_id"], _Players(info["env_id"]), obs, *rows)
        return dm_env.TimeStep(step_type, reward, discount, seen)

    def observation_spec(self) -> Any:
        """What one environment shows, as a namedtuple of specs."""
        return self.spec.observation_spec()

    def action_spec(self) -> Any:
        """What one environment's agent may do."""
        return self.spec.action_spec()

    def close(self) -> None:
        """Lets go of the environments."""
        self._pool.close()

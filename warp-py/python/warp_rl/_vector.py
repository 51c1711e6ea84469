"""Environments of one agent, stepped together: Gymnasium's vector environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from . import _rendering
from ._checks import one_of
from ._pooled import Pooled
from ._spec import EnvSpec
from ._tasks import Task


class VectorEnv(Pooled, gymnasium.vector.VectorEnv):
    """`num_envs` environments of a task, stepped by threads of the native module.

    Environment i of seed s is the only environment of seed s + i, bit for bit, whatever else there is.
    With `device="cuda"`, or another than the first, `"cuda:1"`, they live on a GPU.
    """

    metadata = {"render_modes": list(_rendering.MODES)}
    #: Gymnasium closes what could not be made, too, unless this says that there is nothing to close.
    closed = True

    @classmethod
    def _of_gpu(cls) -> type[VectorEnv]:
        from ._cuda import CudaVectorEnv

        return CudaVectorEnv if cls is VectorEnv else cls

    def _describe(self, described: EnvSpec, config: dict[str, Any], render_mode: str | None) -> None:
        one_of("render_mode", render_mode, None, *_rendering.MODES)
        described.check_lone()
        task = described.task
        self.metadata = {"autoreset_mode": self._mode, **_rendering.metadata(task)}
        self.render_mode = render_mode
        self.single_observation_space = described.observation_space
        self.single_action_space = described.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.spec = gymnasium.envs.registration.EnvSpec(
            id=task.id,
            entry_point="warp_rl._single:SingleEnv",
            vector_entry_point="warp_rl._vector:VectorEnv",
            reward_threshold=task.reward_threshold,
            max_episode_steps=described.max_episode_steps,
            kwargs={"task_id": task.id, **config},
        )
        self._painter = None if render_mode is None else _rendering.Painter(task, config, self.num_envs)

    def _open(self, task: Task, seed: Any, config: dict[str, Any], limit: int | None) -> None:
        self._open_pool(task, seed, config, limit=limit, whole=task.whole)

    def step(self, actions: Any, env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves every environment, or those of `env_id`, whose rows the answer has in that order."""
        if self._painter is None:
            return super().step(actions, env_id)
        ids = self._addressed(env_id)
        answer = super().step(actions, env_id)
        self._painter.note(actions, ids)
        return answer

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Sends environments off with their actions: those of `env_id`, or of the last `recv`, or all.

        Raises RuntimeError or ValueError for one that is under way.
        """
        if self._painter is None:
            return super().send(actions, env_id)
        ids = self._addressed(env_id)
        super().send(actions, env_id)
        self._painter.note(actions, ids)

    def _addressed(self, env_id: Any) -> Any:
        """The environments that actions are of; none for all."""
        return self._pool.going_on if env_id is None else env_id

    def _add_final(self, ended: Any, obs: Any, last: dict[str, Any], info: dict[str, Any]) -> None:
        """Gymnasium's `final_obs` and `final_info`: what was seen where an episode has ended."""
        each = np.full(len(ended), None, dtype=object)
        for i in np.flatnonzero(ended):
            each[i] = obs[i]
        info["final_obs"], info["_final_obs"] = each, ended
        for key in list(last):
            last["_" + key] = ended
        last["env_id"], last["_env_id"] = info["env_id"], ended
        info["final_info"], info["_final_info"] = last, ended

    def render(self, env_id: Any = None) -> tuple[np.ndarray, ...] | None:
        """Pictures of all environments, or of those of `env_id`, uint8 `[height, width, 3]` each.

        None without a render_mode.
        """
        if self._painter is None:
            return None
        return self._painter.pictures(self.get_state(), env_id)

    def xla(self) -> tuple[Any, Any, Any, Any]:
        """A handle and the functions `recv`, `send` and `step`, for programs that JAX compiles, on a GPU.

        Raises RuntimeError on the processor, where environments of `warp_rl.envpool` have it.
        """
        raise RuntimeError("device is 'cpu', where environments of warp_rl.envpool have xla(): these have it on a GPU")

    def close_extras(self, **_: Any) -> None:
        """Lets go of the environments."""
        self._pool.close()

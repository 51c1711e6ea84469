"""What both interfaces share: sending, receiving, and who is who."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _native
from ._spec import EnvSpec, Refused, check


class Core:
    """Environments of a task, behind neither interface."""

    def __init__(self, task_id: str, **kwargs: Any) -> None:
        self.spec: Any = EnvSpec(task_id, **kwargs)
        config = self.spec.config
        self.config: dict[str, Any] = config._asdict()
        self.num_envs: int = config.num_envs
        self.render_mode = kwargs.get("render_mode")
        check(not kwargs.get("from_pixels"), "from_pixels is True, but observations are no images here")
        check(self.render_mode is None, f"render_mode is {self.render_mode!r}, but nothing is drawn here")
        self.all_env_ids = np.arange(self.num_envs, dtype=np.int32)
        self.is_async = config.batch_size < config.num_envs
        offset = config.thread_affinity_offset
        self._action_dtype = np.float32 if self.spec.action_space.dtype.kind == "f" else np.int32
        self._pool = _native.Pool(
            self.spec.task.env,
            self.spec.own,
            self.spec.seeds,
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
        """Sends environments off: an array of actions and who they are of, or a dictionary of both."""
        if isinstance(action, dict):
            action, env_id = self._of_dict(action)
        else:
            action = np.asarray(action)
            if action.dtype.kind not in "iuf":
                raise TypeError(f"action has dtype {action.dtype}, but numbers are needed")
            action = action.astype(self._action_dtype, copy=False)
        if env_id is None:
            env_id = self.all_env_ids
        self._pool.send(action, np.asarray(env_id).astype(np.int32, copy=False))

    def _of_dict(self, given: dict[str, Any]) -> tuple[Any, Any]:
        wanted = {"env_id": np.int32, "players.env_id": np.int32, "action": self._action_dtype}
        flat = {**given, **{f"players.{key}": value for key, value in given.get("players", {}).items()}}
        flat.pop("players", None)
        for key, dtype in wanted.items():
            if key == "players.env_id" and key not in flat:
                continue
            if key not in flat:
                raise Refused(f"action lacks the key {key!r}")
            if np.asarray(flat[key]).dtype != dtype:
                raise Refused(f"action[{key!r}] has dtype {np.asarray(flat[key]).dtype}, but "
                              f"{np.dtype(dtype)} is needed")
        return flat["action"], flat["env_id"]

    def async_reset(self) -> None:
        """Sends every environment off to begin an episode."""
        self._pool.async_reset()

    def _recv(self) -> Any:
        return self._pool.recv()

    def _reset(self, env_id: Any) -> None:
        """Sends environments off to begin an episode, all unless some are named."""
        self._pool.async_reset(None if env_id is None else np.asarray(env_id).astype(np.int32, copy=False))

    def seed(self, seed: Any = None) -> list[int]:
        """The seeds: they are given when the environments are made."""
        return list(self._pool.seeds)

    def xla(self) -> Any:
        """JAX's custom calls, which there are none of here."""
        raise RuntimeError("XLA is not available: step and send take NumPy's arrays")

    def render(self, env_ids: Any = None, camera_id: Any = None) -> Any:
        """Nothing: there is no render_mode."""
        raise Refused("render_mode is None, so nothing is drawn")

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.config.items())
        name = self.spec.task.id.split("-")[0]
        return f"{name}{type(self).__name__}({inner})"

"""Environments of one agent, stepped together: Gymnasium's vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _rendering
from ._buffer import Buffer, as_output
from ._checks import MOST_ENVS, count, device_of, one_of
from ._pooled import Pooled, mode_of
from ._spec import EnvSpec
from ._tasks import Task, find


class VectorEnv(Pooled, gymnasium.vector.VectorEnv):
    """`num_envs` environments of a task, stepped by threads of the native module.

    Environment i of seed s is the only environment of seed s + i, bit for bit, whatever else there is.
    With `device="cuda"`, or another than the first, `"cuda:1"`, they live on a GPU.
    """

    metadata = {"render_modes": list(_rendering.MODES)}

    def __new__(cls, *_: Any, device: str = "cpu", **__: Any) -> VectorEnv:
        """Those of a GPU are of a class of their own."""
        if cls is VectorEnv and device_of(device) is not None:
            from ._cuda import CudaVectorEnv

            cls = CudaVectorEnv
        return super().__new__(cls)

    def __init__(
        self,
        task_id: str,
        *,
        num_envs: int = 1,
        batch_size: int | None = None,
        num_threads: int = 0,
        thread_affinity_offset: int = -1,
        seed: int | Sequence[int] | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = "next_step",
        device: str = "cpu",
        copy: bool = True,
        output: str = "numpy",
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        task = find(task_id)
        self._arguments = {
            "task_id": task_id,
            "num_envs": num_envs,
            "batch_size": batch_size,
            "num_threads": num_threads,
            "thread_affinity_offset": thread_affinity_offset,
            "max_episode_steps": max_episode_steps,
            "autoreset_mode": mode_of(autoreset_mode).name.lower(),
            "device": device,
            "copy": copy,
            "output": output,
            "render_mode": render_mode,
            **config,
        }
        self.num_envs = count("num_envs", num_envs, most=MOST_ENVS)
        one_of("copy", copy, True, False)
        one_of("output", output, "numpy", "torch", "dlpack")
        one_of("render_mode", render_mode, None, *_rendering.MODES)
        described = EnvSpec(task_id, **config, max_episode_steps=max_episode_steps)
        if not described.is_lone:
            groups = ", ".join(f"{group['n_agents']} {group['name']}" for group in described.groups)
            raise ValueError(
                f"{task_id} has several agents ({groups}): warp_rl.make_multi and warp_rl.make_parallel make it"
            )
        self._mode = mode_of(autoreset_mode)
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
        self._output = output
        self._copies = bool(copy)
        #: What is shown in memory that stays, by name, if anybody has asked for it.
        self._shown: dict[str, np.ndarray] | None = None
        self._painter = None if render_mode is None else _rendering.Painter(task, config, self.num_envs)
        self._open(task, seed, config, described.limit)
        self.closed = False

    def _open(self, task: Task, seed: Any, config: dict[str, Any], limit: int | None) -> None:
        """Makes the environments."""
        # Tensors and buffers are made once, so their memory is always the same.
        copy = self._copies and self._output == "numpy"
        self._pool = self._open_pool(task, seed, config, limit=limit, copy=copy, whole=task.whole)
        output = self._output
        self._tensors = {
            key: as_output(array, output) for key, array in self._pool.buffers().items() if output != "numpy"
        }

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every environment, or where `options["reset_mask"]` is true.

        With a seed draws begin anew; without, they go on in the same streams.
        """
        return self._seen(self._begin(seed, options))

    def step(self, actions: Any, env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves every environment, or those of `env_id`, whose rows the answer has in that order."""
        answer = self._answered(self._pool.step(actions, env_id))
        if self._painter is not None:
            self._painter.note(actions, env_id)
        return answer

    def _answered(self, answer: Any) -> Any:
        if self._pool.ended and self._mode is AutoresetMode.SAME_STEP:
            obs, last = self._pool.last()
            self._add_final(answer[2] | answer[3], obs, last, answer[4])
        if self._shown is None and not self._tensors:
            return answer
        obs, reward, terminated, truncated, info = answer
        named = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        self._show({**info, **named}, info["env_id"])
        if not self._tensors:
            return answer
        shown = self._as_tensors({**info, **named})
        return (*(shown.pop(key) for key in named), shown)

    def _seen(self, answer: Any) -> Any:
        if self._shown is None and not self._tensors:
            return answer
        obs, info = answer
        nothing = np.zeros(self.num_envs, np.bool_)
        flags = {"reward": np.zeros(self.num_envs, np.float32), "terminated": nothing, "truncated": nothing}
        self._show({**info, "obs": obs, **flags}, info["env_id"])
        if not self._tensors:
            return answer
        shown = self._as_tensors({**info, "obs": obs})
        return shown.pop("obs"), shown

    def _show(self, arrays: dict[str, Any], ids: Any) -> None:
        for key, shown in (self._shown or {}).items():
            shown[ids] = arrays[key]

    def _as_tensors(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The tensors of these arrays: those that there are, or their first rows."""
        rows = len(arrays["obs"])
        shown = {}
        for key, array in arrays.items():
            tensor = self._tensors.get(key, array)
            if key in self._tensors and rows < self.num_envs:
                tensor = as_output(array, self._output)
            shown[key] = tensor
        return shown

    def buffer_names(self) -> list[str]:
        """Names of the buffers: "obs", "reward", "terminated", "truncated" and what `info` has."""
        names = list(self._pool.buffers())
        shown = ["obs", "reward", "terminated", "truncated"]
        return shown + [name for name in names if name not in shown]

    def buffer(self, name: str) -> Buffer:
        """The memory of all environments in which `name` is shown after every step, a row for each.

        With `copy=False` it is the memory of the answers themselves; otherwise they are copied into it.
        """
        arrays = self._pool.buffers()
        if name not in arrays:
            raise KeyError(f"there is no buffer {name!r}; there are {', '.join(arrays)}")
        if not self._copies or self._tensors:
            return Buffer(arrays[name])
        if self._shown is None:
            # Of those that the last answer was not of, nothing is known but zeros.
            ids, latest = self._pool.answered, self._pool.latest()
            self._shown = {key: np.zeros_like(array) for key, array in arrays.items()}
            self._show({key: latest[key][: len(ids)] for key in arrays}, ids)
        return Buffer(self._shown[name])

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Waits for the `batch_size` environments that are finished first; `info["env_id"]` says which.

        Raises RuntimeError if fewer are under way.
        """
        return self._answered(self._pool.recv())

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

    @property
    def final_obs(self) -> Any:
        """The last observation of each episode that the last step ended; other rows mean nothing.

        Needs autoreset_mode "same_step": in the other modes the last observation is the step's own.
        """
        if self._mode is not AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode is {self._mode.name.lower()!r}: the step's observation is the last")
        last = self._pool.last()[0]
        return last if self._output == "numpy" else as_output(last, self._output)

    def render(self, env_id: Any = None) -> tuple[np.ndarray, ...] | None:
        """Pictures of all environments, or of those of `env_id`, uint8 `[height, width, 3]` each.

        None without a render_mode.
        """
        if self._painter is None:
            return None
        return self._painter.pictures(self.get_state(), env_id)

    def close_extras(self, **_: Any) -> None:
        """Lets go of the environments."""
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "spec": self.spec}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self.spec = saved["spec"]

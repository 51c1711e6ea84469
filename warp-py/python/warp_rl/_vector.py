"""Environments of one agent, stepped together: Gymnasium's vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _native, _seeds
from ._buffer import Buffer, as_output
from ._checks import count, one_of
from ._spec import EnvSpec, settings
from ._tasks import find


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


class VectorEnv(gymnasium.vector.VectorEnv):
    """`num_envs` environments of a task, stepped by threads of the native module.

    Environment i of seed s is the only environment of seed s + i, bit for bit, whatever else there is.
    """

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
        self.num_envs = count("num_envs", num_envs)
        one_of("device", device, "cpu")
        one_of("output", output, "numpy", "torch", "dlpack")
        one_of("render_mode", render_mode, None)
        limit = task.max_episode_steps
        if max_episode_steps is not None:
            limit = count("max_episode_steps", max_episode_steps)
        described = EnvSpec(task_id, **config, max_episode_steps=limit)
        if not described.is_lone:
            groups = ", ".join(f"{group['n_agents']} {group['name']}" for group in described.groups)
            raise ValueError(
                f"{task_id} has several agents ({groups}): warp_rl.make_multi and warp_rl.make_parallel make it"
            )
        self._mode = mode_of(autoreset_mode)
        self.metadata = {"autoreset_mode": self._mode, "render_modes": []}
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
        self._pool = _native.Pool(
            task.env,
            settings(task, config),
            _seeds.of_each(seed, self.num_envs),
            num_threads=count("num_threads", num_threads, 0),
            first_core=None if thread_affinity_offset < 0 else thread_affinity_offset,
            autoreset_mode=self._mode.name.lower(),
            max_episode_steps=limit,
            batch_size=None if batch_size is None else count("batch_size", batch_size),
            # Tensors and buffers are made once, so their memory is always the same.
            copy=bool(copy) and output == "numpy",
            whole=task.whole,
        )
        self.closed = False
        self._copies = bool(copy)
        #: What is shown in memory that stays, by name, if anybody has asked for it.
        self._shown: dict[str, np.ndarray] | None = None
        self._output = output
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
        mask = None if options is None else options.get("reset_mask")
        seeds = None if seed is None else _seeds.of_each(seed, self.num_envs)
        if mask is None:
            if seeds is not None:
                self._pool.seed(seeds)
            return self._seen(self._pool.reset())
        mask = checked_mask(mask, self.num_envs)
        if seeds is not None:
            chosen = np.flatnonzero(mask)
            self._pool.seed_some(chosen, [seeds[i] for i in chosen])
        return self._seen(self._pool.reset_where(mask))

    def step(self, actions: Any, env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves every environment, or those of `env_id`, whose rows the answer has in that order."""
        return self._answered(self._pool.step(actions, env_id))

    def _answered(self, answer: Any) -> Any:
        if self._pool.ended and self._mode is AutoresetMode.SAME_STEP:
            self._add_final(*answer[2:])
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
        return list(self._pool.buffers())

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

    def async_reset(self, env_id: Any = None) -> None:
        """Sends every environment, or those of `env_id`, off to begin an episode."""
        self._pool.async_reset(env_id)

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Sends environments off with their actions: those of `env_id`, or of the last `recv`, or all.

        Raises RuntimeError or ValueError for one that is under way.
        """
        self._pool.send(actions, env_id)

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Waits for the `batch_size` environments that are finished first; `info["env_id"]` says which.

        Raises RuntimeError if fewer are under way.
        """
        return self._answered(self._pool.recv())

    def _add_final(self, terminated: Any, truncated: Any, info: dict[str, Any]) -> None:
        """Gymnasium's `final_obs` and `final_info`: what was seen where an episode has ended."""
        ended = terminated | truncated
        obs, last = self._pool.last()
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

    def get_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that the environments' futures depend on, a row for each, by name."""
        return self._pool.get_state()

    def set_state(self, state: dict[str, Any], env_id: Any = None) -> None:
        """Puts back what `get_state` gave, or some of its arrays, into all environments or `env_id`."""
        self._pool.set_state(state, env_id)

    def render(self, env_id: Any = None) -> None:
        """Nothing: there is no render_mode."""

    def close_extras(self, **_: Any) -> None:
        """Lets go of the environments."""
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "state": self.get_state(), "spec": self.spec}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        arguments = dict(saved["arguments"])
        self.__init__(arguments.pop("task_id"), seed=0, **arguments)  # type: ignore[misc]
        self.set_state(saved["state"])
        self.spec = saved["spec"]

    def __len__(self) -> int:
        return self.num_envs


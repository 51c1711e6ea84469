"""Environments on a GPU: they are stepped there, and what they show never leaves it unless that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _native, _seeds
from ._checks import device_of, one_of
from ._multi import MultiVectorEnv
from ._nvrtc import load_nvrtc
from ._pooled import Pooled, checked_mask, mask_of
from ._spec import settings
from ._tasks import Task
from ._vector import VectorEnv


class OnGpu(Pooled):
    """Environments whose arrays live on a GPU.

    Actions are tensors of torch, JAX, CuPy and others, by DLPack or by CUDA's array interface, or arrays of NumPy's,
    which are copied up. With `output="torch"` or `"dlpack"` a step waits for nothing: its work is ordered behind
    torch's current stream, or behind that of the actions, and torch's current stream is ordered behind it. The
    tensors are always the same, and overwritten by the next step. What is wrong with actions on the GPU is known when
    the GPU has come to them: nothing moves from then on, and the next call raises. With `output="numpy"` answers are
    copied down.
    """

    def _open_on_gpu(
        self, task: Task, seed: Any, config: dict[str, Any], *, limit: int | None, **form: Any
    ) -> None:
        given = self._arguments
        one_of("batch_size", given["batch_size"], None, self.num_envs)
        pool = getattr(_native, "CudaPool", None)
        if pool is None:
            raise RuntimeError(f"device is {given['device']!r}, but warp_rl was built without the feature cuda")
        load_nvrtc()
        self._pool = pool(
            task.env,
            settings(task, config),
            _seeds.of_each(seed, self.num_envs),
            gpu=device_of(given["device"]),
            autoreset_mode=given["autoreset_mode"],
            max_episode_steps=limit,
            **form,
        )
        #: Whose answer the next `recv` is, if not all environments' (`self._pool.in_flight` says if there is one).
        self._sent: Any = None
        self._buffers = self._pool.shown()
        self._views = {} if self._output == "numpy" else self._converted(self._buffers)
        self._every = np.ones(self.num_envs, np.bool_)
        self._every.flags.writeable = False
        if self._output == "torch":
            self._every = self._on_gpu(self._every)

    @property
    def stream(self) -> int:
        """The handle of the stream that everything here is ordered on."""
        return self._pool.stream

    def _converted(self, shown: Any) -> Any:
        """Buffers as the output says."""
        if isinstance(shown, dict):
            return {key: self._converted(value) for key, value in shown.items()}
        if self._output == "numpy":
            return shown.numpy()
        if self._output == "dlpack":
            return shown
        import torch

        return torch.from_dlpack(shown)

    def _on_gpu(self, array: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(array.copy()).to(f"cuda:{device_of(self._arguments['device'])}")

    def _current_stream(self) -> int:
        """The handle of torch's current stream; that of the legacy default stream is 1."""
        import torch

        return torch.cuda.current_stream(device_of(self._arguments["device"])).cuda_stream or 1

    def _ordered(self, work: Callable[[], None]) -> None:
        """Does `work` behind what torch has begun, and lets what torch does next wait for it."""
        if self._output == "torch":
            self._pool.follow(self._current_stream())
        work()
        if self._output == "torch":
            self._pool.lead(self._current_stream())
        elif self._output == "numpy":
            self._pool.finish()

    def _shown_now(self, env_id: Any = None) -> dict[str, Any]:
        """What is shown of all environments, or of those of `env_id`."""
        if env_id is None and self._views:
            # Whoever gets a dictionary may put more into it.
            return {key: dict(value) if isinstance(value, dict) else value for key, value in self._views.items()}
        if env_id is None:
            return self._converted(self._buffers)
        shown: dict[str, Any] = {}

        def pick() -> None:
            shown.update(self._pool.shown(env_id))

        self._ordered(pick)
        return self._converted(shown)

    def _seen(self, answer: Any) -> Any:
        return answer

    def _begin(self, seed: Any, options: dict[str, Any] | None) -> Any:
        """Begins an episode in every environment, or where the mask is true."""
        mask = mask_of(options)
        seeds = None if seed is None else _seeds.of_each(seed, self.num_envs)
        mask = None if mask is None else checked_mask(mask, self.num_envs)
        chosen = None if mask is None else np.flatnonzero(mask)
        self._pool.in_flight = False

        def begin() -> None:
            if seeds is not None:
                self._pool.seed(seeds if chosen is None else [seeds[i] for i in chosen], chosen)
            self._pool.reset(chosen)

        self._ordered(begin)
        shown = self._shown_now()
        known = mask
        if mask is not None and self._output == "torch":
            known = self._on_gpu(mask)
        return shown["obs"], self._with_masks(shown["info"], known)

    def step(self, actions: Any, env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves every environment, or those of `env_id`, whose rows the answer has in that order."""
        self._check_idle()
        self._ordered(lambda: self._pool.step(actions, env_id))
        self._note(actions, env_id)
        return self._answer_of(env_id)

    def _note(self, actions: Any, env_id: Any) -> None:
        """Remembers actions for pictures, which there are of one agent."""

    def _answer_of(self, env_id: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        shown = self._shown_now(env_id)
        reward, terminated, truncated = shown["reward"], shown["terminated"], shown["truncated"]
        info = self._with_masks(shown["info"], None)
        if self._arguments["autoreset_mode"] == "same_step":
            self._add_last(shown, info)
        return shown["obs"], reward, terminated, truncated, info

    def _with_masks(self, info: dict[str, Any], mask: Any) -> dict[str, Any]:
        """Of several agents there are none."""
        return info

    def _add_last(self, shown: dict[str, Any], info: dict[str, Any]) -> None:
        """What was seen last where the next episode has begun: dense, for who ended only the GPU knows."""
        if self._output == "numpy" and not (shown["terminated"] | shown["truncated"]).any():
            return
        info["final_obs"], info["final_info"] = shown["final_obs"], shown["final_info"]
        if self._output != "dlpack":
            info["_final_obs"] = info["_final_info"] = shown["terminated"] | shown["truncated"]

    @property
    def final_obs(self) -> Any:
        """What was seen last `[num_envs, ...]` where the last step ended an episode; other rows mean nothing."""
        return self._shown_now()["final_obs" if self._arguments["autoreset_mode"] == "same_step" else "obs"]

    def buffer_names(self) -> list[str]:
        """Names of the buffers: "obs", "reward", "terminated", "truncated" and what `info` has."""
        return [key for key in self._buffers if key not in ("info", "final_info")] + list(self._buffers["info"])

    def buffer(self, name: str) -> Any:
        """The memory of all environments in which `name` is shown after every step, a row for each."""
        if name not in self.buffer_names():
            raise KeyError(f"there is no buffer {name!r}; there are {', '.join(self.buffer_names())}")
        return self._buffers[name] if name in self._buffers else self._buffers["info"][name]

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Starts a step of all environments, or of those of `env_id`; `recv` gives its answer."""
        self._check_idle()
        self._ordered(lambda: self._pool.step(actions, env_id))
        self._note(actions, env_id)
        self._sent, self._pool.in_flight = env_id, True

    def async_reset(self, env_id: Any = None) -> None:
        """Starts an episode in all environments, or in those of `env_id`; `recv` gives what is seen of it."""
        self._check_idle()
        self._ordered(lambda: self._pool.reset(env_id))
        self._sent, self._pool.in_flight = env_id, True

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """The answer for what was sent. Raises RuntimeError if nothing was."""
        if not self._pool.in_flight:
            raise RuntimeError("no environment is in flight: send some first")
        self._pool.in_flight = False
        env_id, self._sent = self._sent, None
        return self._answer_of(env_id)

    def _check_idle(self) -> None:
        if self._pool.in_flight:
            raise RuntimeError("environments were sent and have not been received")


class CudaVectorEnv(OnGpu, VectorEnv):
    """Environments of one agent on a GPU. `info` has no `prob`: how likely a step was is known on the processor."""

    def _open(self, task: Task, seed: Any, config: dict[str, Any], limit: int | None) -> None:
        self._open_on_gpu(task, seed, config, limit=limit, whole=task.whole)

    def xla(self) -> tuple[Any, Any, Any, Any]:
        """A handle and three functions that JAX can compile for this GPU: `handle, recv, send, step`.

        They are as those of EnvPool's module (`warp_rl.envpool`), for all environments at once: `recv(handle)` gives a
        handle and what `recv` does, without masks, `send(handle, actions)` a handle, and `step(handle, actions)` is
        both. Nothing goes through the host. Whole observations are int32.
        """
        try:
            from ._xla import functions
        except ImportError as error:
            raise RuntimeError(f"jax is needed for xla(): {error}") from None
        return functions(self)

    def _note(self, actions: Any, env_id: Any) -> None:
        if self._painter is not None:
            self._painter.note(actions, env_id)

    def _with_masks(self, info: dict[str, Any], mask: Any) -> dict[str, Any]:
        of_rows = self._every if mask is None else mask
        rows = len(info["env_id"])
        return {**info, **{f"_{key}": of_rows[:rows] if rows < self.num_envs else of_rows for key in info}}

    def _add_last(self, shown: dict[str, Any], info: dict[str, Any]) -> None:
        if self._output != "numpy":
            return super()._add_last(shown, info)
        ended = shown["terminated"] | shown["truncated"]
        if ended.any():
            self._add_final(ended, shown["final_obs"], shown["final_info"], info)
        return None


class CudaMultiVectorEnv(OnGpu, MultiVectorEnv):
    """Environments of several agents on a GPU."""

    def _open(self, task: Task, seed: Any, config: dict[str, Any], limit: int | None) -> None:
        self._open_on_gpu(task, seed, config, limit=limit, by_group=True)

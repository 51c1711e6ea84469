"""Environments of one's own, in arrays of any library, as `train` steps them.

Learned from on the processor, they have NumPy's arrays on either side; on a GPU their own stay where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from ._checks import shown, whole
from ._pooled import mode_of

#: How many are made of a function where nothing is said.
_MANY = 64


def as_numpy(array: Any) -> np.ndarray:
    """An array of any library as one of NumPy's: without a copy if it lies in the processor's memory."""
    if isinstance(array, np.ndarray):
        return array
    given = detached(array)
    if hasattr(given, "__dlpack_device__") and given.__dlpack_device__()[0] == 1:
        try:
            return np.from_dlpack(given)
        except (BufferError, RuntimeError, TypeError):
            # A type that DLPack does not have, or memory that is not to be written.
            return np.asarray(given)
    for down in ("cpu", "get", "numpy"):
        if hasattr(given, down):
            return np.asarray(getattr(given, down)())
    return np.asarray(given)


def like(array: Any) -> Callable[[np.ndarray], Any]:
    """What makes an array of NumPy's one of the same library as `array`, where that lies."""
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        import torch

        return lambda given: torch.from_numpy(given).to(array.device)
    if library in ("jax", "jaxlib"):
        import jax

        return lambda given: jax.device_put(given, array.device)
    if library == "cupy":
        import cupy

        return lambda given: cupy.asarray(given)
    if library == "warp":
        import warp

        return lambda given: warp.from_numpy(given, device=array.device)
    return lambda given: given


def handed_out(array: Any) -> Callable[[Any], Any]:
    """What makes an array of the same library as `array` of a buffer on the GPU, in its memory."""
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        import torch

        return lambda given: torch.from_dlpack(given)
    if library in ("jax", "jaxlib"):
        import jax

        return lambda given: jax.dlpack.from_dlpack(given)
    if library == "cupy":
        import cupy

        return lambda given: cupy.from_dlpack(given)
    if library == "warp":
        import warp

        return lambda given: warp.from_dlpack(given)
    return lambda given: given


def kept(array: Any) -> Any:
    """A copy of an array that its environments may overwrite."""
    for copy in ("clone", "copy"):
        if hasattr(array, copy):
            return getattr(array, copy)()
    if type(array).__module__.partition(".")[0] == "warp":
        import warp

        return warp.clone(array)
    return array


def described(space: Any, name: str) -> dict[str, Any]:
    """A space as the native module takes it."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return {"kind": "discrete", "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return {"kind": "multi_discrete", "sizes": space.nvec.tolist()}
    if isinstance(space, spaces.Box):
        low, high = (bound.astype(np.float32).reshape(-1).tolist() for bound in (space.low, space.high))
        return {"kind": "box", "low": low, "high": high, "shape": list(space.shape or (1,))}
    raise ValueError(f"{name} is {space!r}, but only Box, Discrete from 0 and MultiDiscrete are supported")


def number_in(env: Any) -> int:
    """How many environments there are in `env`; TypeError if it does not say."""
    number = whole(getattr(env, "num_envs", None))
    if number is None:
        raise TypeError(f"env is {shown(env)}, which has no num_envs, but environments that are stepped together are needed")
    return number


def parts_of(answer: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Observations, rewards, two flags and what else is known, which may be missing in what a step returns."""
    if not isinstance(answer, tuple | list) or len(answer) < 4:
        raise TypeError(f"env.step returns {shown(answer)}, but observations, rewards, two flags and an info are needed")
    return (*answer[:4], (answer[4] if len(answer) > 4 else None) or {})


class Foreign:
    """Environments, or a function that makes a number of them, seen as the native module asks for them."""

    def __init__(self, env: Any, keys: dict[str, Any]) -> None:
        # A class makes its objects.
        self._makes = env if isinstance(env, type) or not hasattr(env, "step") else None
        if self._makes is not None and not callable(env):
            raise TypeError(f"env is {env!r}, but environments or a function that creates them are needed")
        self._spare = env if self._makes is None else env(int(keys.get("num_envs", _MANY)))
        self._num_envs = number_in(self._spare)
        if self._makes is None and int(keys.setdefault("num_envs", self._num_envs)) != self._num_envs:
            raise ValueError(f"num_envs is {keys['num_envs']}, but env has {self._num_envs} environments")
        if keys:
            keys.setdefault("env__made_by", getattr(env, "__name__", type(env).__name__))
        self._seen = getattr(self._spare, "single_observation_space", None)
        self._done = getattr(self._spare, "single_action_space", None)
        self.observation = described(self._seen, "single_observation_space")
        self.action = described(self._done, "single_action_space")
        if self.observation["kind"] == "multi_discrete":
            n = len(self.observation["sizes"])
            self.observation = {"kind": "box", "low": [-np.inf] * n, "high": [np.inf] * n, "shape": [n]}

    def make(self, num_envs: int, on_gpu: bool) -> Stepped | SteppedOnGpu:
        """So many environments; `on_gpu`: their arrays are to stay there."""
        if self._spare is not None and num_envs == self._num_envs:
            env, self._spare = self._spare, None
        elif self._makes is None:
            raise ValueError(
                f"{num_envs} more environments are needed: give train a function that creates them, env=lambda num_envs: ..."
            )
        else:
            env = self._makes(num_envs)
            if number_in(env) != num_envs:
                raise ValueError(f"env creates {number_in(env)} environments, but {num_envs} were asked for")
        return SteppedOnGpu(env) if on_gpu else Stepped(env, self.observation)


def resets(env: Any) -> bool:
    """Whether somebody has to begin episodes in it; ValueError if they begin a step too late."""
    mode = mode_of((getattr(env, "metadata", None) or {}).get("autoreset_mode", AutoresetMode.SAME_STEP))
    if mode is AutoresetMode.NEXT_STEP:
        raise ValueError("autoreset_mode of env is 'next_step', but 'same_step' or 'disabled' is needed")
    return mode is AutoresetMode.DISABLED


class SteppedOnGpu:
    """Environments whose every answer is their own arrays, on a GPU.

    Nothing waits for the GPU but where they do not say what was seen last: then it has to be known whether an
    episode has ended.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self._resets = resets(env)
        self._theirs: Callable[[Any], Any] = lambda given: given

    def reset(self, seed: int) -> Any:
        """Begins an episode everywhere."""
        answer = self._env.reset(seed=seed)
        obs = answer[0] if isinstance(answer, tuple) else answer
        self._theirs = handed_out(obs)
        return detached(obs)

    def step(self, actions: Any) -> list[Any]:
        """Observations, rewards, two flags, and the last observations, where an episode ended."""
        obs, reward, terminated, truncated, info = parts_of(self._env.step(self._theirs(actions)))
        last = info.get("final_obs")
        if self._resets:
            ended = (as_numpy(terminated) != 0) | (as_numpy(truncated) != 0)
            if ended.any():
                last = kept(obs)
                obs = self._env.reset(options={"reset_mask": ended.reshape(-1)})[0]
        elif last is None and ((as_numpy(truncated) != 0) & (as_numpy(terminated) == 0)).any():
            raise ValueError("env truncates an episode, but its info lacks 'final_obs', the last observation")
        answer = [detached(array) for array in (obs, reward, terminated, truncated)]
        return [*answer, None if last is None else detached(last)]


def detached(array: Any) -> Any:
    """An array without what torch remembers for gradients."""
    return array.detach() if hasattr(array, "detach") else array


class Stepped:
    """Environments whose every answer is arrays of NumPy's, float32 and bool, one element after another."""

    def __init__(self, env: Any, observation: dict[str, Any]) -> None:
        self._env = env
        self._num_envs = int(env.num_envs)
        self._one_hot = observation["n"] if observation["kind"] == "discrete" else 0
        self._item = () if self._one_hot else tuple(observation["shape"])
        self._resets = resets(env)
        self._theirs: Callable[[np.ndarray], Any] = lambda given: given

    def reset(self, seed: int) -> np.ndarray:
        """Begins an episode everywhere."""
        answer = self._env.reset(seed=seed)
        obs = answer[0] if isinstance(answer, tuple) else answer
        self._theirs = like(obs)
        return self._shown(obs, "obs")

    def step(self, actions: np.ndarray) -> list[Any]:
        """Observations, rewards, two flags, and the last observations where an episode ended, if one did."""
        obs, reward, terminated, truncated, info = parts_of(self._env.step(self._theirs(actions)))
        over = self._each(terminated, "terminated", "biu") != 0
        cut = (self._each(truncated, "truncated", "biu") != 0) & ~over
        ended, last = over | cut, None
        shown = self._shown(obs, "obs")
        if ended.any():
            last = shown.copy() if self._resets else self._last(info, shown, ended, cut)
        if self._resets and ended.any():
            shown = self._shown(self._env.reset(options={"reset_mask": ended})[0], "obs")
        rewards = self._each(reward, "reward", "biuf")
        return [shown, np.ascontiguousarray(rewards, np.float32), over, cut, last]

    def _last(self, info: dict[str, Any], shown: np.ndarray, ended: np.ndarray, cut: np.ndarray) -> np.ndarray:
        if "final_obs" not in info:
            if cut.any():
                raise ValueError("env truncates an episode, but its info lacks 'final_obs', the last observation")
            # What follows an end that is no cut counts for nothing.
            return shown
        last = info["final_obs"]
        if getattr(last, "dtype", None) != object:
            return self._shown(last, "final_obs")
        dense, each = shown.copy(), self._each(last, "final_obs", "O")
        rows = np.flatnonzero(ended)
        dense[rows] = self._shown(np.stack([np.asarray(each[i]) for i in rows]), "final_obs", len(rows))
        return dense

    def _shown(self, obs: Any, name: str, rows: int | None = None) -> np.ndarray:
        """Observations as rows of float32: of all environments, or of so many."""
        seen, n = as_numpy(obs), self._num_envs if rows is None else rows
        if self._one_hot:
            return np.eye(self._one_hot, dtype=np.float32)[self._numbers(seen, name, n)]
        width = math.prod(self._item)
        flat = [(n, width), (n,)] if width == 1 else [(n, width)]
        if seen.shape not in [(n, *self._item), *flat]:
            raise ValueError(f"{name} has shape {seen.shape}, but {(n, *self._item)} is needed")
        _check_kind(seen, name, "biuf")
        return np.ascontiguousarray(seen.reshape(n, width), np.float32)

    def _numbers(self, seen: np.ndarray, name: str, n: int) -> np.ndarray:
        """Observations that are numbers of states."""
        numbers = _of_each(seen, name, n, "iu")
        if n and not (0 <= numbers.min() and numbers.max() < self._one_hot):
            least, most = numbers.min(), numbers.max()
            raise ValueError(f"{name} holds numbers from {least} to {most}, but there are {self._one_hot} states")
        return numbers

    def _each(self, values: Any, name: str, kinds: str) -> np.ndarray:
        """A number for each environment."""
        return _of_each(as_numpy(values), name, self._num_envs, kinds)


#: What kinds of NumPy's types are called.
_KINDS = {"biuf": "real numbers", "biu": "flags", "iu": "integers", "O": "objects"}


def _check_kind(array: np.ndarray, name: str, kinds: str) -> None:
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} has dtype {array.dtype}, but {_KINDS[kinds]} are needed")


def _of_each(array: np.ndarray, name: str, n: int, kinds: str) -> np.ndarray:
    """An array `[n]` or `[n, 1]` of these kinds, as `[n]`."""
    if array.shape not in ((n,), (n, 1)):
        raise ValueError(f"{name} has shape {array.shape}, but ({n},) is needed")
    _check_kind(array, name, kinds)
    return np.ascontiguousarray(array.reshape(n))

"""Training from Python, and acting with what was learned."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native
from ._checks import MOST_THREADS, count, device_of, one_of, shown
from ._foreign import Foreign
from ._nvrtc import load_nvrtc

#: Is given an iteration's metrics; False stops the run.
Callback = Callable[[dict[str, Any]], bool | None]


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    #: Its folder, for the command `warp` and `Policy.load`.
    path: str
    #: Its summary, as in `summary.json`.
    summary: dict[str, Any]

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every iteration, as `pandas.DataFrame` takes them."""
        return read_metrics(self.path)


class Progress:
    """A callback that shows one line: a run's progress, its speed and its returns."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._shown: Any = None

    def __call__(self, metrics: dict[str, Any]) -> None:
        """Shows the state after an iteration."""
        seconds = max(time.perf_counter() - self._began, 1e-9)
        steps = metrics["env_steps"]
        mean = metrics.get("episode_return", {}).get("mean") if metrics.get("episodes") else None
        told = "" if mean is None else f", return {mean:.2f}"
        self._show(f"{steps:,} steps, {steps / seconds:,.0f} a second{told}")

    def _show(self, line: str) -> None:
        if "ipykernel" in sys.modules:
            from IPython.display import display

            said = {"text/plain": line}
            if self._shown is None:
                self._shown = display(said, raw=True, display_id=True)
            else:
                self._shown.update(said, raw=True)
        elif sys.stderr.isatty():
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)


def train(
    config: str | os.PathLike[str] | None = None,
    *,
    env: Any = None,
    callbacks: Callback | Iterable[Callback] = (),
    out: str | os.PathLike[str] | None = None,
    threads: int = 0,
    device: str = "auto",
    **keys: Any,
) -> RunResult:
    """Trains policies in an environment, or as a configuration file says.

    `device` is "cpu", "cuda", "cuda:1" and so on, or "auto": a GPU if there is one on which this can be trained.

    `env` is your own environments instead: many stepped together behind Gymnasium's vector interface, in arrays of
    NumPy, torch, JAX, CuPy or NVIDIA Warp, or a function that creates a given number of them, which evaluations need.
    They are reset in the step that ends an episode, with `final_obs` in their info where a time limit truncates it,
    or have the autoreset mode "disabled". A configuration file for them has the env_id "python".
    Learning runs on the processor, unless `device` names a GPU, on which their arrays must be: then nothing is copied
    to the processor, and if every step has `final_obs`, the host never waits for the GPU.

    Further arguments are keys of the configuration, `learning_rate=0.001`, with `__` for a dot:
    `env__episode_length=200`. Raises ValueError for invalid arguments and configurations, RuntimeError for a run that
    failed.
    """
    each = list(callbacks) if isinstance(callbacks, Iterable) and not callable(callbacks) else [callbacks]
    for callback in each:
        if not callable(callback):
            raise TypeError(f"callbacks has {shown(callback)}, but what can be called is needed")

    def follow(metrics: str) -> bool:
        said = json.loads(metrics)
        # Comparisons of NumPy's numbers give a False of its own.
        return all([not _is_false(callback(said)) for callback in each])

    # torch's devices have their names.
    device = str(device)
    if device == "auto" or device_of(device) is not None:
        load_nvrtc()
    foreign = None if env is None else Foreign(env, keys)
    if config is None:
        if env is None:
            raise TypeError("config or env is needed: a name, a file, or your own environments")
        config = "python"
    sets = [f"{key.replace('__', '.')}={_toml(value)}" for key, value in keys.items()]
    folder, summary = _native.train(
        os.fspath(config),
        sets,
        out=None if out is None else os.fspath(out),
        threads=count("threads", threads, 0, MOST_THREADS),
        device=device,
        follow=follow if each else None,
        env=foreign,
    )
    return RunResult(os.fspath(folder), json.loads(summary))


def read_metrics(run: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The metrics of every iteration of a run, as `pandas.DataFrame` takes them."""
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _is_false(answer: Any) -> bool:
    """Whether a callback's answer stops the run."""
    return isinstance(answer, bool | np.bool_) and not answer


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON does not know: numbers and arrays of NumPy, and of whoever is like it."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"the configuration has {shown(value)}, but numbers, texts, lists and dictionaries are possible")
    return value.tolist()


class Policy:
    """The policies of a run, to act with."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._groups = {group["name"]: group for group in native.described()}

    @classmethod
    def load(cls, run: str | os.PathLike[str], *, env: Any = None) -> Policy:
        """The policies of the run in this folder, at its newest checkpoint or that of "RUN@STEP".

        A run in your own environments needs them, or the function that creates them, as `env`, for their spaces.
        """
        return cls(_native.Policy.load(os.fspath(run), None if env is None else Foreign(env, {})))

    @property
    def env(self) -> str:
        """The environment that they were trained in, for `make`, or for `make_multi` where there are several agents."""
        return self._native.env

    @property
    def env_config(self) -> dict[str, Any]:
        """Its configuration there: `make(policy.env, **policy.env_config)`."""
        return self._native.env_config

    @property
    def groups(self) -> list[str]:
        """The groups of agents that they act for."""
        return list(self._native.groups)

    def act(
        self,
        obs: Any,
        *,
        group: str | None = None,
        agent: int | None = None,
        mask: Any = None,
        greedy: bool = True,
        seed: int = 0,
        step: int = 0,
    ) -> Any:
        """Actions for observations, with the same dimensions before those of one: `[envs, agents]` for
        `[envs, agents, width]`, as `make_multi` takes them, or the action for one. Masks have these dimensions, too.

        Observations have the shape of one or are flat, `[width]` or `[n, width]`.
        Numbers are shown one-hot, as the policy has learned from them. Actions are the likeliest, or drawn as
        `seed` and `step` say. A group is named where there are several, and
        an agent in it, counted from 0, where policies act for agents of one group.

        Raises ValueError for observations of another shape, TypeError for what are no real numbers.
        """
        one_of("greedy", greedy, True, False)
        if group is None:
            if len(self._groups) > 1:
                raise ValueError(f"group is None, but must be one of {', '.join(self._groups)}")
            group = next(iter(self._groups))
        rows, leading = self._rows(group, obs)
        actions = self._native.act(
            group,
            rows,
            agent=None if agent is None else count("agent", agent, 0),
            mask=None if mask is None else self._rows_of_mask(group, mask, leading),
            greedy=bool(greedy),
            seed=count("seed", seed, 0, 2**64 - 1),
            step=count("step", step, 0, 2**32 - 1),
        )
        # The action for one is a number where there is only one.
        return actions.reshape(leading + _shape(self._groups[group]["action"]))[()]

    def _rows(self, group: str, obs: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        """Observations, flat, one after another, and the dimensions before those of one."""
        width = self._native.width(group)
        seen = np.asarray(obs)
        if seen.dtype.kind not in "biuf":
            raise TypeError(f"obs has dtype {seen.dtype}, but real numbers are needed")
        if seen.dtype.kind in "iu" and self._shows_number(group):
            if seen.size and not (0 <= seen.min() and seen.max() < width):
                raise ValueError(f"obs holds numbers from {seen.min()} to {seen.max()}, but there are {width} states")
            return np.eye(width, dtype=np.float32)[seen.reshape(-1)], seen.shape
        item = _shape(self._groups[group]["observation"]) or (width,)
        is_whole = seen.shape[-len(item) :] == item
        if not is_whole and not (seen.ndim in (1, 2) and seen.shape[-1] == width):
            flat = "" if item == (width,) else f", or {(width,)} where they are flat"
            raise ValueError(f"obs has shape {seen.shape}, but its last dimensions must be {item}{flat}")
        leading = seen.shape[: -len(item) if is_whole else -1]
        with np.errstate(over="ignore"):  # What is infinite is refused.
            return seen.astype(np.float32).reshape(-1, width), leading

    def _rows_of_mask(self, group: str, mask: Any, leading: tuple[int, ...]) -> np.ndarray:
        flags = np.asarray(mask)
        if flags.dtype.kind not in "biu":
            raise TypeError(f"mask has dtype {flags.dtype}, but flags are needed")
        rows, width = math.prod(leading), self._groups[group]["mask_width"]
        # Flags are as good as 0 and 1.
        flags = flags * 1
        if flags.shape not in ((*leading, width), (rows, width)):
            raise ValueError(f"mask has shape {flags.shape}, but {(*leading, width)} is needed")
        return flags.reshape(rows, width)

    def _shows_number(self, group: str) -> bool:
        said = self._groups[group]["observation"]
        parts = [part for key, part in said.get("parts", {}).items() if key != "action_mask"]
        return said["kind"] == "discrete" or [part["kind"] for part in parts] == ["discrete"]


def _shape(space: dict[str, Any]) -> tuple[int, ...]:
    """The shape of one element of a described space; empty where that is a number, or has parts."""
    return (len(space["sizes"]),) if space["kind"] == "multi_discrete" else tuple(space.get("shape", ()))

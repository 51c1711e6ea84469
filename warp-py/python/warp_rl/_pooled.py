"""What environments of one agent and of several have in common: a pool of the native module's that moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from gymnasium.vector import AutoresetMode

from . import _native, _seeds
from ._buffer import Buffer, as_output, of_each, write_rows
from ._checks import MOST_CORES, MOST_ENVS, count, device_of, one_of, shown
from ._spec import EnvSpec, settings
from ._tasks import Task


def mode_of(autoreset_mode: str | AutoresetMode) -> AutoresetMode:
    """The mode of this name: "next_step", "same_step" or "disabled", or Gymnasium's own member."""
    if isinstance(autoreset_mode, AutoresetMode):
        return autoreset_mode
    named = {"next_step": "NEXT_STEP", "same_step": "SAME_STEP", "disabled": "DISABLED"}
    if isinstance(autoreset_mode, str) and autoreset_mode in named:
        return AutoresetMode[named[autoreset_mode]]
    try:
        return AutoresetMode(autoreset_mode)
    except ValueError:
        known = ", ".join(repr(name) for name in named)
        raise ValueError(f"autoreset_mode is {shown(autoreset_mode)}, but must be one of {known}") from None


def mask_of(options: dict[str, Any] | None) -> Any:
    """`options["reset_mask"]`, or None; TypeError for what is no dictionary, ValueError for other keys."""
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(f"options is {shown(options)}, but a dictionary is needed")
    unknown = [key for key in options if key != "reset_mask"]
    if unknown:
        raise ValueError(f"options has {', '.join(map(shown, unknown))}, but only 'reset_mask' is possible")
    return options.get("reset_mask")


def checked_mask(mask: Any, num_envs: int) -> np.ndarray:
    """A copy of `options["reset_mask"]`; else TypeError or ValueError, as Gymnasium has them."""
    name = "options['reset_mask']"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{name} is {shown(mask)}, but a NumPy array is needed")
    if mask.dtype != np.bool_:
        raise TypeError(f"{name} has dtype {mask.dtype}, but bool is needed")
    if mask.shape != (num_envs,):
        raise ValueError(f"{name} has shape {mask.shape}, but ({num_envs},) is needed")
    if not mask.any():
        raise ValueError(f"{name} is false everywhere, but at least one environment must be reset")
    # The caller may go on with its own, while the answer keeps this one.
    return mask.copy()


class Pickled:
    """What is pickled with all it holds, and its pool by its state.

    As in Python's own pickling, nothing calls `__init__`, whose arguments are other ones in a derived class.
    """

    #: What its pool was made with.
    _opened: dict[str, Any]
    _pool: Any

    def _open(self, **opened: Any) -> None:
        """Makes the pool."""
        self._opened = opened
        self._pool = _native.Pool(**opened)

    def _open_alone(self, task: Task, seed: int | None, config: dict[str, Any], limit: int | None, **form: Any) -> None:
        """Makes the environment; `form` says what its answers look like."""
        self._open(
            name=task.env,
            config=settings(task, config),
            seeds=_seeds.of_one(seed),
            num_threads=1,
            autoreset_mode="disabled",
            max_episode_steps=limit,
            with_masks=False,
            **form,
        )

    def __getstate__(self) -> dict[str, Any]:
        held = {key: value for key, value in vars(self).items() if key != "_pool"}
        return {"held": held, "state": self._pool.get_state()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        vars(self).update(saved["held"])
        self._open(**self._opened)
        self._pool.set_state(saved["state"])


#: What environments hold that lives in memory of the native module's, and is not pickled.
_MADE_ANEW = ("_pool", "_shown", "_views", "_buffers", "_every")


class Pooled:
    """Environments of a pool, whose answers are arrays, or dictionaries of them by group of agents."""

    num_envs: int
    closed: bool
    #: What it was made with, `seed` apart.
    _arguments: dict[str, Any]
    _mode: AutoresetMode
    _output: str
    _pool: Any
    #: Tensors or buffers over the memory of the answers, by name, if the output is such.
    _views: dict[str, Any]
    #: What is shown in memory that stays, by name, if anybody has asked for it.
    _shown: dict[str, Any] | None

    def __new__(cls, *_: Any, device: str = "cpu", **__: Any) -> Self:
        """Those of a GPU are of a class of their own."""
        return super().__new__(cls if device_of(device) is None else cls._of_gpu())

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
        described = EnvSpec(task_id, **config, max_episode_steps=max_episode_steps)
        self.num_envs = count("num_envs", num_envs, most=MOST_ENVS)
        one_of("copy", copy, True, False)
        one_of("output", output, "numpy", "torch", "dlpack")
        self._mode = mode_of(autoreset_mode)
        self._output = output
        self._shown = None
        self._arguments = {
            "task_id": task_id,
            "num_envs": num_envs,
            "batch_size": batch_size,
            "num_threads": num_threads,
            "thread_affinity_offset": thread_affinity_offset,
            "max_episode_steps": max_episode_steps,
            "autoreset_mode": self._mode.name.lower(),
            "device": device,
            "copy": copy,
            "output": output,
            "render_mode": render_mode,
            **config,
        }
        self._describe(described, config, render_mode)
        self._open(described.task, seed, config, described.limit)
        self.closed = False

    @classmethod
    def _of_gpu(cls) -> type[Self]:
        """The class of those of a GPU."""
        raise NotImplementedError

    def _describe(self, described: EnvSpec, config: dict[str, Any], render_mode: str | None) -> None:
        """Says what they look like: spaces, metadata, pictures."""
        raise NotImplementedError

    def _open(self, task: Task, seed: Any, config: dict[str, Any], limit: int | None) -> None:
        """Makes the environments."""
        raise NotImplementedError

    def _open_pool(self, task: Task, seed: Any, config: dict[str, Any], *, limit: int | None, **form: Any) -> None:
        """Makes the environments on the processor; `form` says what their answers look like."""
        given = self._arguments
        batch_size = given["batch_size"]
        offset = count("thread_affinity_offset", given["thread_affinity_offset"], -1, MOST_CORES)
        self._pool = _native.Pool(
            task.env,
            settings(task, config),
            _seeds.of_each(seed, self.num_envs),
            num_threads=count("num_threads", given["num_threads"], 0),
            first_core=None if offset < 0 else offset,
            autoreset_mode=given["autoreset_mode"],
            max_episode_steps=limit,
            batch_size=None if batch_size is None else count("batch_size", batch_size),
            # Tensors and buffers are made once, so their memory is always the same.
            copy=bool(given["copy"]) and self._output == "numpy",
            **form,
        )
        self._views = {} if self._output == "numpy" else self._converted(self._pool.buffers())

    def _converted(self, arrays: Any) -> Any:
        return of_each(arrays, lambda array: as_output(array, self._output))

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every environment, or where `options["reset_mask"]` is true.

        With a seed draws begin anew; without, they go on in the same streams.
        """
        return self._seen(self._begin(seed, options))

    def _begin(self, seed: int | Sequence[int] | None, options: dict[str, Any] | None) -> Any:
        """Begins an episode in every environment, or where `options["reset_mask"]` is true: the pool's answer."""
        mask = mask_of(options)
        seeds = None if seed is None else _seeds.of_each(seed, self.num_envs)
        if mask is None:
            if seeds is not None:
                self._pool.seed(seeds)
            return self._pool.reset()
        mask = checked_mask(mask, self.num_envs)
        if seeds is not None:
            chosen = np.flatnonzero(mask)
            self._pool.seed_some(chosen, [seeds[i] for i in chosen])
        return self._pool.reset_where(mask)

    def step(self, actions: Any, env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves every environment, or those of `env_id`, whose rows the answer has in that order."""
        return self._answered(self._pool.step(actions, env_id))

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Waits for the `batch_size` environments that are finished first; `info["env_id"]` says which.

        Raises RuntimeError if fewer are under way.
        """
        return self._answered(self._pool.recv())

    def _answered(self, answer: Any) -> Any:
        if "final_obs" in answer[4]:
            self._add_final(answer[2] | answer[3], answer[4]["final_obs"], answer[4]["final_info"], answer[4])
        if self._shown is None and not self._views:
            return answer
        obs, reward, terminated, truncated, info = answer
        told = self._show({**info, "obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated})
        return (*(told.pop(key) for key in ("obs", "reward", "terminated", "truncated")), told)

    def _seen(self, answer: Any) -> Any:
        if self._shown is None and not self._views:
            return answer
        obs, info = answer
        kept = self._shown or {}
        nothing = {key: of_each(kept[key], np.zeros_like) for key in ("reward", "terminated", "truncated") if key in kept}
        told = self._show({**info, "obs": obs, **nothing})
        return told["obs"], {key: told[key] for key in info}

    def _add_final(self, ended: Any, obs: Any, last: dict[str, Any], info: dict[str, Any]) -> None:
        """Puts into `info` what was seen where an episode has ended and the next one begun."""
        raise NotImplementedError

    def _show(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Copies an answer to where it is looked at, and gives it as the output says."""
        ids = arrays["env_id"]
        for key, kept in (self._shown or {}).items():
            write_rows(kept, ids, arrays[key])
        if not self._views:
            return arrays
        whole = self._views if len(ids) == self.num_envs else {}
        return {
            # Whoever gets a dictionary may put more into it.
            key: of_each(whole[key], lambda view: view) if key in whole
            else self._converted(array) if key in self._views else array
            for key, array in arrays.items()
        }

    def buffer_names(self) -> list[str]:
        """Names of the buffers: "obs", "reward", "terminated", "truncated" and what `info` has."""
        first = ["obs", "reward", "terminated", "truncated"]
        return first + [name for name in self._pool.buffers() if name not in first]

    def buffer(self, name: str) -> Any:
        """The memory of all environments in which `name` is shown after every step, a row for each.

        A `Buffer`, or a dictionary of them by group. Answers are copied into it. With `copy=False`, or an `output`
        other than "numpy", it is the memory of the answers themselves: behind a step of some environments its first
        rows are those of that answer, `info["env_id"]` says whose, and other rows mean nothing.
        """
        arrays = self._pool.buffers()
        if name not in arrays:
            raise KeyError(f"there is no buffer {name!r}; there are {', '.join(arrays)}")
        if not self._arguments["copy"] or self._views:
            return of_each(arrays[name], Buffer)
        if self._shown is None:
            # Of those that the last answer was not of, nothing is known but zeros.
            ids, latest = self._pool.answered, self._pool.latest()
            self._shown = of_each(arrays, np.zeros_like)
            write_rows(self._shown, ids, of_each(latest, lambda array: array[: len(ids)]))
        return of_each(self._shown[name], Buffer)

    @property
    def final_obs(self) -> Any:
        """What was seen last `[num_envs, ...]` where the last step ended an episode; other rows mean nothing.

        In the modes other than "same_step" that is the step's own observation.
        """
        ids = self._pool.answered
        shown = self._pool.last()[0] if self._mode is AutoresetMode.SAME_STEP else self._pool.latest()["obs"]
        rows = of_each(shown, lambda array: array[: len(ids)])
        if ids != list(range(self.num_envs)):
            every = of_each(rows, lambda array: np.zeros((self.num_envs, *array.shape[1:]), array.dtype))
            write_rows(every, ids, rows)
            rows = every
        return self._converted(rows)

    def async_reset(self, env_id: Any = None) -> None:
        """Sends every environment, or those of `env_id`, off to begin an episode."""
        self._pool.async_reset(env_id)

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Sends environments off with their actions: those of `env_id`, or of the last `recv`, or all.

        Raises RuntimeError or ValueError for one that is under way.
        """
        self._pool.send(actions, env_id)

    @property
    def stream(self) -> int:
        """The handle of the stream that everything is ordered on, on a GPU; AttributeError elsewhere."""
        raise AttributeError("device is 'cpu', which has no stream")

    def get_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that the environments' futures depend on, a row for each, by name."""
        return self._pool.get_state()

    def set_state(self, state: dict[str, Any], env_id: Any = None) -> None:
        """Puts back what `get_state` gave, or some of its arrays, into all environments or `env_id`."""
        if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
            raise TypeError(f"state is {shown(state)}, but a dictionary of arrays by name is needed")
        with np.errstate(over="ignore"):  # What is infinite is refused.
            self._pool.set_state(dict(state), env_id)

    def __getstate__(self) -> dict[str, Any]:
        held = {key: value for key, value in vars(self).items() if key not in _MADE_ANEW}
        return {"held": held, "state": self.get_state(), "going_on": getattr(self._pool, "going_on", None)}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        arguments = dict(saved["held"]["_arguments"])
        # Whatever a class that is derived from this one is made with, it is held.
        Pooled.__init__(self, arguments.pop("task_id"), seed=0, **arguments)
        vars(self).update(saved["held"])
        self.set_state(saved["state"])
        if saved["going_on"] is not None:
            self._pool.going_on = saved["going_on"]

    def __len__(self) -> int:
        return self.num_envs

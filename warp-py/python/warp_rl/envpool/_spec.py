"""What a task looks like, as EnvPool says it: one environment's arrays, and a configuration of all keys."""

from __future__ import annotations

import contextlib
import operator
from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from .. import _native, _spaces
from .._checks import MOST_CORES, MOST_ENVS, MOST_STEPS, count, shown
from .._spec import settings
from .._tasks import Task, find
from ._keys import OWN, OwnKey

#: Keys that every task has, with their defaults.
COMMON: dict[str, Any] = {
    "num_envs": 1,
    "batch_size": 0,
    "num_threads": 0,
    "max_num_players": 1,
    "thread_affinity_offset": -1,
    "base_path": "",
    "seed": 42,
    "env_seed": [],
    "gym_reset_return_info": True,
}
#: Keys of wrappers, which no environment has.
WRAPPERS: dict[str, Any] = {
    "render_mode": None,
    "render_env_id": 0,
    "render_width": None,
    "render_height": None,
    "render_camera_id": None,
    "from_pixels": False,
}
_INT32 = np.iinfo(np.int32)
#: The version of the pendulum's rules.
_PENDULUM = 1
#: Tiles a side of the frozen lake's maps.
_SIZES = {"4x4": 4, "8x8": 8}

ArraySpec = namedtuple("ArraySpec", ["shape", "dtype", "minimum", "maximum"])


class Refused(AssertionError, ValueError):
    """A value out of range: EnvPool asserts, others expect a ValueError."""


class RefusedType(AssertionError, TypeError):
    """A value of another type, or a key that is unknown: EnvPool asserts, others expect a TypeError."""


def check(holds: bool, sentence: str) -> None:
    """Raises `Refused` with the sentence unless it holds."""
    if not holds:
        raise Refused(sentence)


@contextlib.contextmanager
def asserting() -> Iterator[None]:
    """Makes what is raised for values and types `Refused` and `RefusedType`."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from error.__cause__
    except TypeError as error:
        raise RefusedType(str(error)) from error.__cause__


def _whole(config: dict[str, Any], name: str, least: int, most: int | None = None) -> int:
    """A key that is a whole number in bounds; else `Refused` or `RefusedType`."""
    with asserting():
        config[name] = count(name, config[name], least, most)
    return config[name]


def _seeds(config: dict[str, Any]) -> list[int]:
    """The seed of each environment, of 64 bits: one after another from `seed`, or those of a sequence.

    They are int32, and may be negative. A sequence is kept as `env_seed`, as EnvPool does it.
    """
    num_envs = config["num_envs"]
    if isinstance(config["seed"], Sequence | np.ndarray):
        config.update(env_seed=[_seed(one) for one in config["seed"]], seed=0)
        check(len(config["env_seed"]) > 0, f"seed has 0 numbers, but num_envs is {num_envs}")
    each = [_seed(one) for one in config["env_seed"]]
    if not each:
        config["seed"] = _seed(config["seed"])
        each = [config["seed"] + i for i in range(num_envs)]
    check(len(each) == num_envs, f"seed has {len(each)} numbers, but num_envs is {num_envs}")
    return [one & 0xFFFF_FFFF_FFFF_FFFF for one in each]


def _seed(one: Any) -> int:
    if not hasattr(one, "__index__"):
        raise RefusedType(f"seed is {shown(one)}, but a whole number is needed")
    check(_INT32.min <= one <= _INT32.max, f"seed is {one}, which is not in the range of int32")
    return operator.index(one)


class EnvSpec:
    """A task with its configuration, complete."""

    def __init__(self, task_id: str, **kwargs: Any) -> None:
        self._given = (task_id, kwargs)
        with asserting():
            self.task: Task = find(task_id)
        check(kwargs.get("gym_reset_return_info", True) is True, "gym_reset_return_info is False, but "
              "a reset always returns its info")
        own = {key: value for key, value in kwargs.items() if key not in COMMON and key not in WRAPPERS}
        limit = own.pop("max_episode_steps", None)
        self.reward_threshold: float | None = own.pop("reward_threshold", self.task.reward_threshold)
        if self.task.env == "frozen_lake" and "size" in own:
            size = own.pop("size")
            check(size in _SIZES.values(), f"size is {size!r}, but there are maps of 4 and of 8 tiles a side")
            own["map_name"] = f"{size}x{size}"
        fixed = {"version": _PENDULUM} if self.task.env == "pendulum" else {}
        for key, value in fixed.items():
            check(own.pop(key, value) == value, f"{key} is {kwargs.get(key)!r}, but only {value} is possible")
        with asserting():
            self.own = settings(self.task, own)
            said = _native.describe(self.task.env, self.own)
        self.group: dict[str, Any] = said["groups"][0]
        check(len(said["groups"]) == 1 and self.group["n_agents"] == 1, f"{task_id} has several agents")
        common = {key: kwargs.get(key, default) for key, default in COMMON.items()}
        self._check_common(common)
        self.seeds = _seeds(common)
        if limit is None:
            of_task = self.task.max_episode_steps if own.get("episode_length") is None else None
            limit = of_task or said["max_episode_steps"] or MOST_STEPS
        self.max_episode_steps = _whole({"max_episode_steps": limit}, "max_episode_steps", 1, MOST_STEPS)
        values = {**common, "max_episode_steps": self.max_episode_steps}
        if self.reward_threshold is not None:
            values["reward_threshold"] = self.reward_threshold
        extra = {key: value for key, value in said["config"].items() if key not in ("preset", "episode_length")}
        values.update({**extra, **fixed})
        if extra.get("map_name") in _SIZES:
            values["size"] = _SIZES[extra["map_name"]]
        #: A named tuple, of another type for each task.
        self.config: Any = namedtuple("Config", list(values))(**values)  # type: ignore[misc]
        self.own_key: OwnKey | None = OWN.get(self.task.env)

    def _check_common(self, common: dict[str, Any]) -> None:
        num_envs = _whole(common, "num_envs", 1, MOST_ENVS)
        common["batch_size"] = _whole(common, "batch_size", 0, num_envs) or num_envs
        _whole(common, "num_threads", 0)
        _whole(common, "thread_affinity_offset", -1, MOST_CORES)
        players = common["max_num_players"]
        check(players == 1, f"max_num_players is {players!r}, but these tasks have one player")

    @property
    def gen_config(self) -> type:
        """The type of `config`."""
        return type(self.config)

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """What one environment's agent sees."""
        return _spaces.observation(self.group, whole=self.task.whole, integer=np.int32)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """What it may do."""
        return _spaces.action(self.group)

    gymnasium_observation_space = observation_space
    gymnasium_action_space = action_space

    @property
    def state_array_spec(self) -> dict[str, ArraySpec]:
        """The arrays that come of a step."""
        whole = (_INT32.min, _INT32.max)
        float32 = np.finfo(np.float32)
        own = self.own_key
        more = {} if own is None else {
            f"info:{own.name}": ArraySpec(own.declared, np.dtype("float32"), float32.min, float32.max)
        }
        return {
            **more,
            "info:env_id": ArraySpec([], np.dtype("int32"), *whole),
            "info:players.env_id": ArraySpec([-1], np.dtype("int32"), *whole),
            "elapsed_step": ArraySpec([], np.dtype("int32"), *whole),
            "done": ArraySpec([], np.dtype("bool"), False, True),
            "reward": ArraySpec([-1], np.dtype("float32"), float32.min, float32.max),
            "discount": ArraySpec([-1], np.dtype("float32"), 0.0, 1.0),
            "step_type": ArraySpec([], np.dtype("int32"), *whole),
            "trunc": ArraySpec([], np.dtype("bool"), False, True),
            "obs": _array_spec(self.observation_space),
        }

    @property
    def action_array_spec(self) -> dict[str, ArraySpec]:
        """The arrays that go into a step."""
        whole = (_INT32.min, _INT32.max)
        return {
            "env_id": ArraySpec([], np.dtype("int32"), *whole),
            "players.env_id": ArraySpec([-1], np.dtype("int32"), *whole),
            "action": _array_spec(self.action_space, -1),
        }

    def observation_spec(self) -> Any:
        """dm_env's form of what one environment shows: a namedtuple of specs."""
        from ._dm import observation_spec

        return observation_spec(self)

    def action_spec(self) -> Any:
        """dm_env's form of the action space."""
        from .._dm import array_spec

        return array_spec(self.action_space, "action", np.int32)

    def __reduce__(self) -> Any:
        # What it was made of: the type of its configuration is its own.
        return _made, self._given

    def __repr__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.config._asdict().items())
        return f"{self.task.id.split('-')[0]}EnvSpec({inner})"


def _made(task_id: str, kwargs: dict[str, Any]) -> EnvSpec:
    return EnvSpec(task_id, **kwargs)


def _array_spec(space: spaces.Space[Any], *by_player: int) -> ArraySpec:
    """The array of a space; a number is one for each player, an array only where `by_player` says so."""
    if isinstance(space, spaces.Discrete):
        return ArraySpec([-1], np.dtype("int32"), 0, int(space.n) - 1)
    shape = [*by_player, *(space.shape or ())]
    if isinstance(space, spaces.MultiDiscrete):
        return ArraySpec(shape, np.dtype("int32"), 0, space.nvec - 1)
    return ArraySpec(shape, space.dtype, space.low, space.high)  # type: ignore[attr-defined]

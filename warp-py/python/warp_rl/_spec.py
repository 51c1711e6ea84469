"""The description of a task before it is created."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from gymnasium import spaces

from . import _native, _spaces
from ._checks import MOST_STEPS, count, nearest, shown
from ._tasks import Task, find

#: Keys of other libraries for keys of ours, by environment.
_KEYS = {"pendulum": {"g": "gravity"}}


def settings(task: Task, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a task's environment, `config` over what the name says.

    Raises TypeError for a key that the environment does not have.
    """
    said = _native.describe(task.env, {})
    given = {_KEYS.get(task.env, {}).get(key, key): value for key, value in config.items()}
    for key in given:
        if key not in said["keys"]:
            known = ", ".join(said["keys"])
            raise TypeError(f"{task.id} has no option {key!r}; it has {known}{nearest(key, said['keys'])}")
    merged = {**task.config, **given}
    if task.env == "frozen_lake" and given.get("desc") is not None:
        merged["desc"] = _rows_of_map(given["desc"])
    if task.env == "frozen_lake" and config.get("desc") is None and config.get("map_name", 0) is None:
        merged["map_name"] = "random"
    return merged


def _rows_of_map(desc: Any) -> list[str]:
    """The rows of a map that is given as Gymnasium takes it: strings, or tile by tile, as letters or bytes.

    Raises TypeError for what is none.
    """

    def letters(tile: Any) -> str:
        tile = tile.decode("ascii", "replace") if isinstance(tile, bytes) else tile
        if not isinstance(tile, str):
            raise TypeError
        return tile

    try:
        return [letters(row) if isinstance(row, str | bytes) else "".join(map(letters, row)) for row in desc]
    except TypeError:
        raise TypeError(f"desc is {shown(desc)}, but rows of letters are needed") from None


class EnvSpec:
    """What a task looks like: spaces, limits, the complete configuration."""

    def __init__(self, task_id: str, **config: Any) -> None:
        task = find(task_id)
        self._given = dict(config)
        given = config.pop("max_episode_steps", None)
        #: The limit in the place of the environment's own.
        self.limit: int | None = task.max_episode_steps if config.get("episode_length") is None else None
        if given is not None:
            self.limit = count("max_episode_steps", given, most=MOST_STEPS)
        said = _native.describe(task.env, settings(task, config))
        self.id = task.id
        self.task = task
        self.groups: list[dict[str, Any]] = said["groups"]
        self.max_episode_steps: int | None = self.limit or said["max_episode_steps"]
        self.reward_threshold: float | None = task.reward_threshold
        #: Numbers that a centralised critic sees; 0: there is no such observation.
        self.global_width: int = said["global_width"]
        values = {**said["config"], "max_episode_steps": self.max_episode_steps}
        values["reward_threshold"] = self.reward_threshold
        #: A named tuple, of another type for each task.
        self.config: Any = namedtuple("Config", list(values))(**values)  # type: ignore[misc]

    @property
    def is_lone(self) -> bool:
        """Whether one agent acts in it."""
        return len(self.groups) == 1 and self.groups[0]["n_agents"] == 1

    def check_lone(self) -> None:
        """Raises ValueError where several agents act."""
        if not self.is_lone:
            groups = ", ".join(f"{group['n_agents']} {group['name']}" for group in self.groups)
            raise ValueError(
                f"{self.id} has several agents ({groups}): warp_rl.make_multi and warp_rl.make_parallel make it"
            )

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The observation space; with several agents a dictionary by group."""
        if self.is_lone:
            return _spaces.observation(self.groups[0], whole=self.task.whole)
        return spaces.Dict({group["name"]: _spaces.observation(group) for group in self.groups})

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The action space; with several agents a dictionary by group."""
        if self.is_lone:
            return _spaces.action(self.groups[0])
        return spaces.Dict({group["name"]: _spaces.action(group) for group in self.groups})

    def observation_spec(self) -> Any:
        """dm_env's form of the observation space."""
        from ._dm import array_spec

        return array_spec(self.observation_space, "observation")

    def action_spec(self) -> Any:
        """dm_env's form of the action space."""
        from ._dm import array_spec

        return array_spec(self.action_space, "action")

    def __reduce__(self) -> Any:
        # What it was made of: the type of its configuration is its own.
        return _made, (self.id, self._given)

    def __repr__(self) -> str:
        return f"EnvSpec({self.id!r}, {self.observation_space}, {self.action_space})"


def _made(task_id: str, config: dict[str, Any]) -> EnvSpec:
    return EnvSpec(task_id, **config)


def make_spec(task_id: str, **config: Any) -> EnvSpec:
    """What a task looks like, with `config` over its defaults.

    Raises ValueError for an unknown task or a value out of range, TypeError for an unknown key.
    """
    return EnvSpec(task_id, **config)

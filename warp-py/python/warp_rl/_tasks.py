"""The tasks: Gymnasium's and EnvPool's names, and the environment and configuration behind each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _native
from ._checks import nearest


@dataclass(frozen=True)
class Task:
    """An environment under a name, with the configuration that the name implies."""

    id: str
    env: str
    config: dict[str, Any] = field(default_factory=dict)
    reward_threshold: float | None = None
    #: Maximum number of steps in an episode; None: the environment's own.
    max_episode_steps: int | None = None
    #: Observations are whole numbers, though the environment writes real ones.
    whole: bool = False
    #: Another task's name for the same rules.
    alias_of: str | None = None


def _table() -> dict[str, Task]:
    tasks = [
        Task("CartPole-v0", "cartpole", reward_threshold=195.0, max_episode_steps=200),
        Task("CartPole-v1", "cartpole", reward_threshold=475.0),
        Task("Acrobot-v1", "acrobot", reward_threshold=-100.0),
        Task("MountainCar-v0", "mountain_car", reward_threshold=-110.0),
        Task("MountainCarContinuous-v0", "continuous_mountain_car", reward_threshold=90.0),
        Task("Pendulum-v1", "pendulum"),
        # Whatever its map.
        Task("FrozenLake-v1", "frozen_lake", reward_threshold=0.7, max_episode_steps=100),
        Task(
            "FrozenLake8x8-v1",
            "frozen_lake",
            config={"map_name": "8x8"},
            reward_threshold=0.85,
        ),
        Task("CliffWalking-v1", "cliff_walking"),
        Task("CliffWalking-v0", "cliff_walking", alias_of="CliffWalking-v1"),
        Task("CliffWalkingSlippery-v1", "cliff_walking", config={"is_slippery": True}),
        Task("Taxi-v4", "taxi", reward_threshold=8.0),
        Task("Taxi-v3", "taxi", reward_threshold=8.0, alias_of="Taxi-v4"),
        Task("Blackjack-v1", "blackjack", whole=True),
        Task("Catch-v0", "catch"),
        Task("NChain-v0", "nchain"),
    ]
    return {task.id: task for task in tasks}


TABLE = _table()


def lone() -> list[str]:
    """Names of all tasks with one agent: those of other libraries, then the environments' own."""
    own = [name for name in _native.names() if _is_lone(name)]
    return [*TABLE, *own]


def with_groups() -> list[str]:
    """Names of all environments with several agents."""
    return [name for name in _native.names() if not _is_lone(name)]


def _is_lone(name: str) -> bool:
    return name not in _GROUPS


#: Environments with several agents; a test holds it against what they say of themselves.
_GROUPS = frozenset({"covid19", "rice_n", "tag_continuous", "tag_gridworld"})


def find(task_id: str) -> Task:
    """The task of this name, which may have the namespace "warp_rl/".

    Raises ValueError with the nearest name if there is none.
    """
    if not isinstance(task_id, str):
        raise TypeError(f"task_id is {task_id!r}, but a string is needed")
    name = task_id.removeprefix("warp_rl/")
    if name in TABLE:
        return TABLE[name]
    known = _native.names()
    if name in known:
        return Task(name, name)
    raise ValueError(f"there is no task {task_id!r}{nearest(name, [*TABLE, *known])}")

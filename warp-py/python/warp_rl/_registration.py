"""Our tasks in Gymnasium's registry, as "warp_rl/CartPole-v1" and so on."""

from __future__ import annotations

from gymnasium.envs.registration import register as register_one
from gymnasium.envs.registration import registry

from ._spec import EnvSpec
from ._tasks import find, lone


def register() -> None:
    """Registers every task under the namespace "warp_rl", once."""
    for task in map(find, lone()):
        name = f"warp_rl/{task.id}"
        if name not in registry:
            register_one(
                id=name,
                entry_point="warp_rl._single:SingleEnv",
                vector_entry_point="warp_rl._vector:VectorEnv",
                reward_threshold=task.reward_threshold,
                max_episode_steps=EnvSpec(task.id).max_episode_steps,
                kwargs={"task_id": task.id},
            )

"""A user's program, which `mypy --strict` must accept and which must run."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import warp_rl


def mean_return(task: str, num_envs: int, steps: int) -> float:
    envs = warp_rl.make(task, num_envs=num_envs, seed=0, autoreset_mode="same_step")
    obs, info = envs.reset(seed=[3 + i for i in range(num_envs)])
    total = 0.0
    for _ in range(steps):
        obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        total += float(np.sum(reward))
    state: dict[str, np.ndarray] = envs.get_state()
    envs.set_state(state, env_id=None)
    envs.close()
    return total / num_envs


# What is made is known by the words that ask for it.
assert_type(warp_rl.make("CartPole-v1", num_envs=2), warp_rl.VectorEnv)
step_type: np.ndarray = warp_rl.make("CartPole-v1", "dm", num_envs=2).reset().step_type
agents: list[str] = warp_rl.make("tag_gridworld", "parallel").possible_agents
groups: dict[str, int] = warp_rl.make_multi("tag_gridworld", num_envs=2).groups
stream: int | None = getattr(warp_rl.make("CartPole-v1"), "stream", None)
print(step_type, agents, groups, stream)

spec = warp_rl.make_spec("FrozenLake-v1", map_name="8x8")
names: list[str] = warp_rl.list_envs()
limit: int | None = spec.max_episode_steps
rate: float = spec.config.success_rate
print(mean_return("CartPole-v1", 8, 50), names[0], limit, spec.observation_space)

"""An environment in JAX's arrays, one compiled function a step: `python jax_environment.py [cuda]`. A walker looks for the
exit."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import warp_rl


@jax.jit
def walk(cell, steps, actions):
    cell, steps = jnp.maximum(cell + 2 * actions - 1, 0), steps + 1
    arrived = cell == 8
    late = (steps == 30) & ~arrived
    over = arrived | late
    return jnp.where(over, 0, cell), jnp.where(over, 0, steps), cell[:, None] / 8, arrived, late


class Corridor:
    single_observation_space = spaces.Box(0, 1, (1,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seed=None):
        self.cell = self.steps = jnp.zeros(self.num_envs, int)
        return self.cell[:, None] / 8, {}

    def step(self, actions):
        self.cell, self.steps, last, arrived, late = walk(self.cell, self.steps, actions)
        return self.cell[:, None] / 8, arrived.astype(float), arrived, late, {"final_obs": last}


device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
keys = {"total_steps": 60_000, "num_steps": 32, "gamma": 0.9, "learning_rate": 0.003}
run = warp_rl.train(env=Corridor(64), device=device, out="jax_corridor", **keys)
print(run.summary["mean_episode_return"])

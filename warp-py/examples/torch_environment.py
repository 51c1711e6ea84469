"""An environment in torch's tensors, trained in: `python torch_environment.py [cuda]`. A walker looks for the exit."""

import sys

import numpy as np
import torch
from gymnasium import spaces

import warp_rl


class Corridor:
    single_observation_space = spaces.Box(0, 1, (1,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self, num_envs, device="cpu"):
        self.num_envs, self.device = num_envs, device

    def reset(self, seed=None):
        self.cell = torch.zeros(self.num_envs, device=self.device)
        self.steps = torch.zeros(self.num_envs, device=self.device)
        return self.cell[:, None] / 8, {}

    def step(self, actions):
        self.cell = (self.cell + 2 * actions - 1).clamp(min=0)
        self.steps += 1
        arrived = self.cell == 8
        late = (self.steps == 30) & ~arrived
        last, over = self.cell[:, None] / 8, arrived | late
        self.cell, self.steps = self.cell.masked_fill(over, 0), self.steps.masked_fill(over, 0)
        return self.cell[:, None] / 8, arrived.float(), arrived, late, {"final_obs": last}


device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
keys = {"total_steps": 60_000, "num_steps": 32, "gamma": 0.9, "learning_rate": 0.003}
run = warp_rl.train(env=Corridor(64, device), device=device, out="torch_corridor", **keys)
print(run.summary["mean_episode_return"])

"""An environment in a kernel of NVIDIA Warp, whose package is `warp`: `python nvidia_warp_environment.py [cuda]`. A walker
looks for the exit."""

import sys

import numpy as np
import warp as wp
from gymnasium import spaces

import warp_rl


@wp.kernel
def walk(action: wp.array(dtype=wp.int64), cell: wp.array(dtype=wp.int32), steps: wp.array(dtype=wp.int32),
         obs: wp.array(dtype=wp.float32), last: wp.array(dtype=wp.float32), reward: wp.array(dtype=wp.float32),
         arrived: wp.array(dtype=wp.uint8), late: wp.array(dtype=wp.uint8)):
    i = wp.tid()
    place = wp.max(cell[i] + 2 * wp.int32(action[i]) - 1, 0)
    steps[i] = steps[i] + 1
    last[i] = float(place) / 8.0
    arrived[i] = wp.uint8(wp.where(place == 8, 1, 0))
    late[i] = wp.uint8(wp.where(place != 8 and steps[i] == 30, 1, 0))
    reward[i] = float(arrived[i])
    if place == 8 or steps[i] == 30:
        place = 0
        steps[i] = 0
    cell[i] = place
    obs[i] = float(place) / 8.0


class Corridor:
    single_observation_space = spaces.Box(0, 1, (1,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seed=None):
        types = wp.int32, wp.int32, wp.float32, wp.float32, wp.float32, wp.uint8, wp.uint8
        self.arrays = [wp.zeros(self.num_envs, dtype=dtype) for dtype in types]
        return self.arrays[2], {}

    def step(self, actions):
        wp.launch(walk, self.num_envs, inputs=[actions, *self.arrays])
        _, _, obs, last, reward, arrived, late = self.arrays
        return obs, reward, arrived, late, {"final_obs": last}


device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
keys = {"total_steps": 60_000, "num_steps": 32, "gamma": 0.9, "learning_rate": 0.003}
with wp.ScopedDevice(device):
    run = warp_rl.train(env=Corridor(64), device=device, out="warp_corridor", **keys)
print(run.summary["mean_episode_return"])

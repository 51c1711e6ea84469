"""What a call for one environment costs, and what it costs to import the package: `python one_call.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import gymnasium
import numpy as np

import warp_rl

IMPORT = """
import time, numpy, gymnasium
began = time.perf_counter()
import warp_rl
print(1000 * (time.perf_counter() - began))
"""


def import_ms() -> float:
    """The median of some processes, beyond NumPy and Gymnasium."""
    runs = [subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True) for _ in range(15)]
    return statistics.median(float(run.stdout) for run in runs)


def call_us(step: Callable[[], object], calls: int = 5000) -> float:
    """The median of nine rounds."""
    rounds = []
    for _ in range(9):
        began = time.perf_counter()
        for _ in range(calls):
            step()
        rounds.append(1e6 * (time.perf_counter() - began) / calls)
    return statistics.median(rounds)


def main() -> None:
    """Prints a line for each."""
    print(f"import warp_rl: {import_ms():.1f} ms")
    for task in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1"):
        envs = warp_rl.make(task, seed=0)
        envs.reset()
        action = np.zeros(envs.action_space.shape, envs.action_space.dtype)
        print(f"warp_rl.make({task!r}): {call_us(lambda: envs.step(action)):.1f} us")
    pool = warp_rl.envpool.make_gymnasium("CartPole-v1")
    pool.reset()
    print(f"warp_rl.envpool: {call_us(lambda: pool.step(np.zeros(1, np.int32))):.1f} us")
    one = gymnasium.make("warp_rl/CartPole-v1")
    one.reset()

    def step() -> None:
        _, _, terminated, truncated, _ = one.step(0)
        if terminated or truncated:
            one.reset()

    print(f"gymnasium.make: {call_us(step):.1f} us, with its wrappers and resets")


if __name__ == "__main__":
    main()

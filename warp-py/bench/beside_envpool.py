"""Steps per second through Python, beside EnvPool in the same minute.

    pip install envpool; python beside_envpool.py

Both are measured in turns, three times, with actions that were made before; the median counts, of EnvPool with
one thread or with as many as it chooses, whichever is faster.
"""

from __future__ import annotations

import statistics
import time
import warnings

import envpool
import numpy as np

import warp_rl

TASKS = [
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "Pendulum-v1",
    "FrozenLake-v1",
    "CliffWalking-v1",
    "Taxi-v3",
    "Blackjack-v1",
    "Catch-v0",
    "NChain-v0",
]
ROUNDS = 3
SECONDS = 0.25


def actions_of(space, rows):
    return [np.stack([space.sample() for _ in range(rows)]) for _ in range(8)]


def waiting(envs, space, num_envs):
    actions = actions_of(space, num_envs)
    envs.reset()
    return lambda i: envs.step(actions[i & 7]), num_envs


def sending(envs, space, batch_size):
    actions = actions_of(space, batch_size)
    envs.async_reset()

    def turn(i):
        envs.send(actions[i & 7], envs.recv()[4]["env_id"])

    return turn, batch_size


def rate(turn, rows):
    calls, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS:
        for i in range(16):
            turn(i)
        calls += 16
    return calls * rows / took


def main():
    print("| task | batch | ours, M steps/s | EnvPool, M steps/s | ratio |\n|---|---|---|---|---|")
    for num_envs, batch_size in [(64, 64), (1024, 1024), (128, 64), (2048, 1024)]:
        kind = waiting if num_envs == batch_size else sending
        name = str(batch_size) if num_envs == batch_size else f"{batch_size} of {num_envs}"
        for task in TASKS:
            arguments = {"num_envs": num_envs, "batch_size": batch_size}
            ours = warp_rl.make(task, **arguments)
            theirs = [envpool.make_gymnasium(task, num_threads=threads, **arguments) for threads in (1, 0)]
            turns = [kind(ours, ours.single_action_space, batch_size)]
            turns += [kind(envs, envs.action_space, batch_size) for envs in theirs]
            rates = [[rate(*turn) for turn in turns] for _ in range(ROUNDS)]
            mine, one, more = (statistics.median(of) / 1e6 for of in zip(*rates, strict=True))
            other = max(one, more)
            print(f"| {task} | {name} | {mine:.2f} | {other:.3f} | {mine / other:.0f} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()

"""What the tests share."""

from __future__ import annotations

import os

import numpy as np
import pytest

import warp_rl

# JAX would take most of a GPU for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

#: One task of each kind: by tiles or one by one; numbers, real numbers, whole numbers, images, masks.
KINDS = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "Catch-v0", "NChain-v0"]


@pytest.fixture(params=KINDS)
def task(request: pytest.FixtureRequest) -> str:
    return request.param


def actions_of(envs: warp_rl.VectorEnv, step: int, ids: np.ndarray | None = None) -> np.ndarray:
    """Actions that depend on the environment's number and on how often it was moved, alone."""
    ids = np.arange(envs.num_envs) if ids is None else ids.astype(np.int64)
    space = envs.single_action_space
    bits = (ids * 2_654_435_761 + step * 40_503 + 12_345) % 65_536
    if hasattr(space, "n"):
        return bits % space.n
    return (space.low + (space.high - space.low) * (bits[:, None] / 65_536.0)).astype(np.float32)

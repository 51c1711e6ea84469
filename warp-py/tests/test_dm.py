"""dm_env's interface, by its own tests."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dm_env")

import dm_env
from dm_env import test_utils

import warp_rl


class _Tests(test_utils.EnvironmentTestMixin):
    task = "CartPole-v1"

    def make_object_under_test(self):
        return warp_rl.make_dm(self.task, seed=0)

    def make_action_sequence(self):
        spec = self.environment.action_spec()
        rng = np.random.default_rng(0)
        for _ in range(100):
            if isinstance(spec, dm_env.specs.DiscreteArray):
                yield np.asarray(rng.integers(spec.num_values), spec.dtype)
            else:
                yield rng.uniform(spec.minimum, spec.maximum).astype(spec.dtype)


def _of(name):
    from absl.testing import absltest

    return type(f"Test{name.split('-')[0]}", (_Tests, absltest.TestCase), {"task": name})


for _name in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "Catch-v0"):
    _made = _of(_name)
    globals()[_made.__name__] = _made
del _made, _Tests


def test_ends():
    env = warp_rl.make_dm("CartPole-v1", seed=0)
    first = env.step(1)
    assert first.first() and first.reward is None and first.discount is None
    while not (step := env.step(1)).last():
        assert step.mid() and step.discount == 1.0
    assert step.discount == 0.0 and step.reward == 1.0
    assert env.step(1).first()
    env = warp_rl.make_dm("Pendulum-v1", seed=0, max_episode_steps=3)
    env.reset()
    steps = [env.step([0.0]) for _ in range(3)]
    assert steps[2].last() and steps[2].discount == 1.0
    for step in steps:
        env.observation_spec().validate(step.observation)


def test_of_many():
    envs = warp_rl.make_dm("CartPole-v1", num_envs=3)
    assert envs.reset().observation.obs.shape == (3, 4)
    spec = warp_rl.make_spec("Taxi-v4")
    assert spec.observation_spec().num_values == 500 and spec.action_spec().num_values == 6


def test_make_with_a_number_is_batched() -> None:
    envs = warp_rl.make("CartPole-v1", "dm", num_envs=3, seed=5)
    step = envs.reset()
    assert step.step_type.tolist() == [0, 0, 0]
    assert step.observation.obs.shape == (3, 4)

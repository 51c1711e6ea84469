"""Stable-Baselines3's vector environment."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import warp_rl.sb3


def test_rows_that_ended_say_so():
    envs = warp_rl.sb3.make("CartPole-v1", 4, max_episode_steps=20)
    assert list(envs.seed(3)) == [3, 4, 5, 6]
    obs = envs.reset()
    assert (obs == warp_rl.make("CartPole-v1", num_envs=4, seed=3).reset()[0]).all()
    assert envs.reset_infos == [{}] * 4
    seen = set()
    for step in range(60):
        obs, reward, dones, infos = envs.step(np.full(4, step % 2))
        assert reward.dtype == np.float32
        for i in range(4):
            assert bool(infos[i]) == dones[i]
            if dones[i]:
                assert infos[i]["terminal_observation"].shape == (4,)
                assert (infos[i]["terminal_observation"] != obs[i]).any()
                seen.add(infos[i]["TimeLimit.truncated"])
    assert True in seen
    assert envs.get_attr("num_envs") == [4] * 4 and envs.env_is_wrapped(object, [0]) == [False]


@pytest.mark.parametrize(
    ("name", "value"), [("autoreset_mode", "next_step"), ("batch_size", 2), ("output", "torch"), ("copy", False)]
)
def test_what_the_library_expects_cannot_be_changed(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value!r}"):
        warp_rl.sb3.make("CartPole-v1", 4, **{name: value})
    warp_rl.sb3.make("CartPole-v1", 4, autoreset_mode="same_step", copy=True)


def test_attributes_are_those_of_each():
    envs = warp_rl.sb3.make("CartPole-v1", 3, render_mode="rgb_array")
    assert envs.get_attr("action_space", [0]) == [envs.action_space] and envs.render_mode == "rgb_array"
    envs.set_attr("difficulty", 1)
    envs.set_attr("difficulty", 2, indices=[1])
    assert envs.get_attr("difficulty") == [1, 2, 1]
    envs.reset()
    images = envs.get_images()
    assert len(images) == 3 and all(image.dtype == np.uint8 and image.ndim == 3 for image in images)
    assert len(envs.env_method("render", indices=[2])) == 1


def test_ppo_learns():
    envs = VecMonitor(warp_rl.sb3.make("CartPole-v1", 16, seed=0))
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=256, n_epochs=10, learning_rate=1e-3, seed=0, device="cpu")
    model.learn(60_000)
    returns = [episode["r"] for episode in model.ep_info_buffer]
    assert np.mean(returns) > 120, np.mean(returns)

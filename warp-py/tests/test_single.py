"""One environment, as Gymnasium makes it."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import warp_rl

#: What Gymnasium's own environments of these names are told as well.
THEIRS = ("minimum value is -infinity", "maximum value is infinity", "symmetric and normalized", "out of date")


@pytest.mark.parametrize("task_id", warp_rl.list_envs())
def test_gymnasiums_checker_is_content(task_id):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(gymnasium.make(f"warp_rl/{task_id}", render_mode="rgb_array").unwrapped)
    others = [str(one.message) for one in said if not any(theirs in str(one.message) for theirs in THEIRS)]
    assert not others


def test_it_is_the_first_of_many():
    env = gymnasium.make("warp_rl/Taxi-v4")
    envs = warp_rl.make("Taxi-v4", num_envs=3, autoreset_mode="disabled")
    obs, info = env.reset(seed=9)
    many, their = envs.reset(seed=9)
    assert obs == many[0] and isinstance(obs, int)
    assert set(info) == {"elapsed_step", "prob", "action_mask"}
    for step in range(50):
        obs, reward, terminated, truncated, info = env.step(step % 6)
        many, rewards, *_, their = envs.step([step % 6] * 3)
        assert obs == many[0] and reward == rewards[0] and type(terminated) is bool
        assert (info["action_mask"] == their["action_mask"][0]).all()


def test_a_seed_is_one_number():
    env = gymnasium.make("warp_rl/CartPole-v1").unwrapped
    for seed in ([1], np.array([1]), "x", 1.0):
        with pytest.raises(TypeError, match="seed is .*, but a whole number is needed"):
            env.reset(seed=seed)


def test_options_of_a_reset_are_refused():
    env = gymnasium.make("warp_rl/CartPole-v1")
    env.reset(options={})
    with pytest.raises(ValueError, match="options is {'low': -0.5}, but no options are possible"):
        env.reset(options={"low": -0.5})


def test_gymnasium_cuts_the_episode():
    env = gymnasium.make("warp_rl/Pendulum-v1")
    env.reset(seed=0)
    for step in range(200):
        *_, terminated, truncated, _ = env.step(np.zeros(1, np.float32))
        assert not terminated and truncated == (step == 199)
    short = gymnasium.make("warp_rl/Pendulum-v1", max_episode_steps=5)
    short.reset(seed=0)
    assert [short.step([0.0])[3] for _ in range(5)] == [False] * 4 + [True]


def test_options_reach_the_environment():
    env = gymnasium.make("warp_rl/FrozenLake-v1", desc=["SG"], is_slippery=False)
    assert env.observation_space.n == 2
    env.reset()
    assert env.step(2)[:3] == (1, 1.0, True)
    for neither in ({"desc": None, "map_name": None}, {"map_name": None}):
        random = warp_rl.make("FrozenLake-v1", num_envs=1, **neither)
        assert random.single_observation_space.n == 64
    given = warp_rl.make("FrozenLake-v1", num_envs=1, desc=["SG"], map_name=None)
    assert given.single_observation_space.n == 2


@pytest.mark.parametrize("action", [0.7, True, 2**70, "0", None, [0]])
def test_actions_of_another_kind_are_refused(action):
    env = gymnasium.make("warp_rl/CartPole-v1").unwrapped
    env.reset(seed=0)
    with pytest.raises((TypeError, ValueError), match="actions"):
        env.step(action)
    twin = gymnasium.make("warp_rl/CartPole-v1").unwrapped
    twin.reset(seed=0)
    assert (env.step(1)[0] == twin.step(np.int8(1))[0]).all()


@pytest.mark.parametrize(
    "desc",
    [["SFH", "FFG"], ("SFH", "FFG"), [list("SFH"), list("FFG")], np.array(["SFH", "FFG"]), np.asarray(["SFH", "FFG"], "c"), [b"SFH", b"FFG"]],
    ids=["strings", "a tuple", "letters", "an array", "bytes", "strings of bytes"],
)
def test_maps_are_given_as_gymnasium_takes_them(desc):
    env = gymnasium.make("warp_rl/FrozenLake-v1", desc=desc, is_slippery=False)
    assert env.observation_space.n == 6
    env.reset(seed=0)
    assert [env.step(action)[0] for action in (2, 1, 2)] == [1, 4, 5]


@pytest.mark.parametrize("desc", [7, [1, 2], [["S", 3]], [None]])
def test_what_is_no_map_is_refused(desc):
    with pytest.raises(TypeError, match="desc is .* but rows of letters are needed"):
        warp_rl.make("FrozenLake-v1", desc=desc)
    with pytest.raises(ValueError, match="desc"):
        warp_rl.make("FrozenLake-v1", desc=["SFH", "FG"])

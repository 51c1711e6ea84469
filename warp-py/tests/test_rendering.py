"""Pictures of environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import warp_rl


@pytest.mark.parametrize("task", list(warp_rl._tasks.TABLE))
def test_a_picture_shows_where_things_are(task):
    env = gymnasium.make(f"warp_rl/{task}", render_mode="rgb_array")
    env.reset(seed=1)
    env.action_space.seed(0)
    frames = []
    for _ in range(30):
        if any(env.step(env.action_space.sample())[2:4]):
            env.reset()
        frames.append(env.render())
    assert all(frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 for frame in frames)
    # Below the heading, in which steps are counted.
    below = {frame[frame.shape[0] // 4 :].tobytes() for frame in frames}
    assert len(below) > 1, "nothing has moved"


def test_each_environment_has_its_picture():
    envs = warp_rl.make("CartPole-v1", num_envs=5, seed=3, render_mode="rgb_array")
    envs.reset()
    for _ in range(10):
        envs.step(np.array([0, 1, 0, 1, 1]))
    frames = envs.render()
    assert len(frames) == 5 and len({frame.tobytes() for frame in frames}) == 5
    assert (envs.render([3])[0] == frames[3]).all()
    one = warp_rl.make("CartPole-v1", seed=3 + 3, render_mode="rgb_array")
    one.reset()
    for _ in range(10):
        one.step([1])
    assert (one.render()[0] == frames[3]).all()
    # Where it was pushed is a part of the picture.
    one.set_state(envs.get_state() and {key: value[3:4] for key, value in envs.get_state().items()})
    one._painter.note([0])
    assert not (one.render()[0] == frames[3]).all()
    assert warp_rl.make("CartPole-v1").render() is None


def test_wrappers_of_gymnasium_take_pictures(tmp_path):
    envs = warp_rl.make("FrozenLake-v1", num_envs=2, seed=0, render_mode="rgb_array")
    from gymnasium.wrappers.vector import HumanRendering

    assert envs.metadata["render_fps"] == 4 and HumanRendering
    env = gymnasium.wrappers.RenderCollection(gymnasium.make("warp_rl/Taxi-v4", render_mode="rgb_array"))
    env.reset(seed=0)
    env.step(0)
    assert len(env.render()) == 2


def test_as_envpool_renders():
    envs = warp_rl.envpool.make_gymnasium(
        "CartPole-v1", num_envs=3, render_mode="rgb_array", render_env_id=1, render_width=200
    )
    envs.reset()
    assert envs.render().shape[0] == 1 and envs.render().shape[2] == 200
    both = envs.render(env_ids=[1, 2])
    assert both.shape[0] == 2 and (both[0] == envs.render()[0]).all()
    with pytest.raises(AssertionError, match="render_height"):
        warp_rl.envpool.make_gymnasium("CartPole-v1", render_mode="rgb_array", render_height=100)

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


def test_pictures_know_what_was_done_however_it_was_said():
    made = lambda **form: warp_rl.make("CartPole-v1", num_envs=3, seed=0, render_mode="rgb_array", **form)  # noqa: E731
    envs, other = made(), made()
    for one in (envs, other):
        one.reset()
    envs.step([], [])
    envs.step([1, 0], np.array([2, 0], np.uint64))
    other.send([1, 0], [2, 0])
    other.recv()
    assert all((one == two).all() for one, two in zip(envs.render(), other.render(), strict=True))
    acts = envs._painter._acts
    assert acts[[0, 2], 0].tolist() == [0, 1] and np.isnan(acts[1])
    later = made(batch_size=2)
    later.async_reset()
    first = later.recv()[4]["env_id"]
    later.send([0, 1])
    assert later._painter._acts[first, 0].tolist() == [0, 1]


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
    made = lambda task, **size: warp_rl.envpool.make_gymnasium(task, render_mode="rgb_array", **size)  # noqa: E731
    for size in ({"render_width": 0}, {"render_height": -3}, {"render_height": 100_000}):
        with pytest.raises(AssertionError, match=f"{next(iter(size))} is "):
            made("CartPole-v1", **size)
    with pytest.raises(TypeError, match="render_width is 'wide'"):
        made("CartPole-v1", render_width="wide")
    # EnvPool's sizes.
    for task, height, width in [("CartPole-v1", 400, 600), ("Acrobot-v1", 500, 500), ("MountainCar-v0", 400, 600)]:
        assert made(task).render().shape == (1, height, width, 3)


@pytest.mark.parametrize(("width", "height"), [(64, 48), (600, 40), (30, 400), (1, 1), (300, 300)])
@pytest.mark.parametrize("task", ["CartPole-v1", "Taxi-v3", "Catch-v0"])
def test_pictures_fit_in_whatever_is_asked_for(task, width, height):
    envs = warp_rl.envpool.make_gymnasium(task, render_mode="rgb_array", render_width=width, render_height=height)
    envs.reset()
    [picture] = envs.render()
    assert picture.shape == (height, width, 3) and picture.dtype == np.uint8
    # It is not all margin.
    assert width * height < 1000 or len(np.unique(picture.reshape(-1, 3), axis=0)) > 1

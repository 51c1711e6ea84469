"""Training from Python, acting with what was learned, and the command."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import warp_rl

KEYS = {"num_envs": 16, "total_steps": 40_000, "learning_rate": 0.002}


def test_a_run_is_followed_and_its_policy_acts(tmp_path):
    seen = []
    run = warp_rl.train("cartpole", callbacks=seen.append, out=tmp_path / "run", **KEYS)
    assert run.path == str(tmp_path / "run") and len(seen) > 5
    assert seen[-1]["env_steps"] >= 40_000 and len(run.metrics()) == len(seen)
    policy = warp_rl.Policy.load(run.path)
    envs = warp_rl.make("CartPole-v1", num_envs=32, seed=0, autoreset_mode="same_step")
    obs, _ = envs.reset()
    lengths = []
    for _ in range(600):
        actions = policy.act(obs)
        assert actions.shape == (32,) and actions.dtype == np.int64
        obs, _, _, _, info = envs.step(actions)
        if "final_info" in info:
            lengths += info["final_info"]["elapsed_step"][info["_final_info"]].tolist()
    assert np.mean(lengths) > 80, "random actions hold it for 22 steps"
    assert policy.act(obs[0]) == policy.act(obs)[0]
    assert (policy.act(obs, greedy=False, seed=1) == policy.act(obs, greedy=False, seed=1)).all()
    with pytest.raises(ValueError, match="obs"):
        policy.act(np.zeros((2, 3)))


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_a_callback_stops_a_run_and_its_errors_are_raised(tmp_path, kind):
    count = 0

    def twice(metrics):
        nonlocal count
        count += 1
        return kind(count < 2)

    run = warp_rl.train("cartpole", callbacks=[twice], out=tmp_path / "short", **KEYS)
    assert count == 2 and run.metrics()[-1]["env_steps"] < 40_000

    def fails(metrics):
        raise ZeroDivisionError("of the callback")

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        warp_rl.train("cartpole", callbacks=fails, out=tmp_path / "broken", **KEYS)


def test_values_of_actions_are_not_sampled_from(tmp_path):
    run = warp_rl.train("cartpole", out=tmp_path / "run", algorithm="dqn", num_envs=4, total_steps=512)
    policy = warp_rl.Policy.load(run.path)
    assert policy.act(np.zeros(4)) in (0, 1)
    with pytest.raises(ValueError, match="dqn has values of actions and no distribution to sample from"):
        policy.act(np.zeros(4), greedy=False)


def test_observations_of_another_shape_are_refused(tmp_path):
    policy = warp_rl.Policy.load(warp_rl.train("cartpole", out=tmp_path / "run", total_steps=500).path)
    for shape in [(4, 2), (2, 2), (8,), (2, 4, 1), (0,), ()]:
        with pytest.raises(ValueError, match=r"obs has shape \(.*but its last dimensions must be \(4,\)"):
            policy.act(np.zeros(shape))
    for obs in [np.zeros(4, complex), np.array(["a"] * 4), np.array([None] * 4)]:
        with pytest.raises(TypeError, match="obs has dtype .*, but real numbers are needed"):
            policy.act(obs)
    for shape in [(), (3,), (1,), (0,), (2, 3), (1, 1)]:
        assert np.shape(policy.act(np.zeros((*shape, 4)))) == shape


def test_actions_have_the_dimensions_that_environments_take(tmp_path):
    run = warp_rl.train("covid19", out=tmp_path / "run", total_steps=500, env__episode_length=30, num_envs=1)
    policy = warp_rl.Policy.load(run.path)
    envs = warp_rl.make_multi("covid19", num_envs=3, seed=0, **policy.env_config)
    obs, info = envs.reset()
    masks = info["action_mask"]
    for _ in range(3):
        actions = {g: policy.act(obs[g], group=g, mask=masks.get(g)) for g in obs}
        assert all(actions[g].shape == envs.action_space[g].shape for g in obs)
        obs, *_, info = envs.step(actions)
        masks = info["action_mask"]
    [group, *_] = masks
    one = policy.act(obs[group][1, 0], group=group, mask=masks[group][1, 0])
    assert one == policy.act(obs[group], group=group, mask=masks[group])[1, 0]
    with pytest.raises(ValueError, match="mask has shape"):
        policy.act(obs[group], group=group, mask=masks[group][:2])


def test_pictures_are_observations(tmp_path):
    run = warp_rl.train("catch", out=tmp_path / "run", total_steps=500)
    policy = warp_rl.Policy.load(run.path)
    obs, _ = warp_rl.make("Catch-v0", num_envs=3, seed=0).reset()
    flat = obs.reshape(3, -1)
    assert (policy.act(obs) == policy.act(flat)).all() and policy.act(obs[0]) == policy.act(flat[0])
    with pytest.raises(ValueError, match="or .* where they are flat"):
        policy.act(obs.swapaxes(1, 2))


def test_numbers_are_shown_one_hot(tmp_path):
    keys = {"num_envs": 16, "total_steps": 10_000, "env__is_slippery": False}
    run = warp_rl.train("frozen_lake", out=tmp_path / "lake", **keys)
    policy = warp_rl.Policy.load(run.path)
    assert policy.act(np.array([0, 1, 14])).shape == (3,) and policy.act(0) in range(4)
    assert policy.act(np.zeros((2, 3), int)).shape == (2, 3)
    with pytest.raises(ValueError, match="16 states"):
        policy.act(np.array([16]))


def test_what_the_user_can_put_right_is_a_value_error(tmp_path):
    for target, keys in [("cartpol", {}), ("cartpole", {"nope": 1}), ("cartpole", {"num_envs": 0})]:
        with pytest.raises(ValueError):
            warp_rl.train(target, out=tmp_path / "none", **keys)
    with pytest.raises(ValueError):
        warp_rl.Policy.load(str(tmp_path / "none"))


def test_what_is_wrong_is_said_once_and_by_its_name(tmp_path):
    run = warp_rl.train("cartpole", out=tmp_path / "run", total_steps=np.int64(500), learning_rate=np.float32(1e-3))
    policy = warp_rl.Policy.load(run.path)
    obs = np.zeros((2, 4), np.float32)
    assert policy.act(obs, seed=np.int64(3)).shape == (2,)
    for arguments, error, says in [
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": "a"}, TypeError, "seed is 'a'"),
        ({"step": 2**32}, ValueError, "step is 4294967296"),
        ({"agent": -1}, ValueError, "agent is -1"),
        ({"greedy": "x"}, ValueError, "greedy is 'x'"),
        ({"mask": np.ones((2, 2), bool)}, ValueError, "mask has shape"),
        ({"mask": "x"}, TypeError, "mask has dtype <U1, but flags are needed"),
    ]:
        with pytest.raises(error, match=says):
            policy.act(obs, **arguments)
    with pytest.raises(ValueError, match="not finite") as refused:
        policy.act(obs * np.nan)
    assert str(refused.value).count("returned NaN") == 1
    for arguments, error, says in [
        ({"threads": -1}, ValueError, "threads is -1"),
        ({"threads": "a"}, TypeError, "threads is 'a'"),
        ({"threads": 10**9}, ValueError, "threads is 1000000000, but at most 1024 are possible"),
        ({"callbacks": 3}, TypeError, "callbacks has 3"),
        ({"callbacks": [3]}, TypeError, "callbacks has 3"),
        ({"learning_rate": object()}, TypeError, "configuration has <object"),
    ]:
        with pytest.raises(error, match=says):
            warp_rl.train("cartpole", out=tmp_path / "none", **arguments)


def test_flags_are_masks(tmp_path):
    run = warp_rl.train("covid19", out=tmp_path / "run", total_steps=500, env__episode_length=30, num_envs=1)
    policy = warp_rl.Policy.load(run.path)
    obs = warp_rl.make_multi("covid19", num_envs=1, seed=0, **policy.env_config).reset()[0]["planner"][0]
    only = np.arange(21)[None] == 7
    assert policy.act(obs, group="planner", mask=only).tolist() == [7]


def test_the_command():
    def command(*words):
        line = [sys.executable, "-m", "warp_rl", *words]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    assert "cartpole" in command("envs").stdout
    wrong = command("trian")
    assert wrong.returncode == 2 and "did you mean train?" in wrong.stderr


def test_errors_call_arguments_what_they_are_called_here():
    with pytest.raises(ValueError, match="device=cuda:99: ") as refused:
        warp_rl.train("cartpole", device="cuda:99")
    assert "--device" not in str(refused.value)

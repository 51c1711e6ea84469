"""Environments of several agents: PettingZoo's own tests, and arrays by group."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import warp_rl

NAMES = warp_rl.list_parallel_envs()


def test_lists_are_complete():
    for name in NAMES:
        assert not warp_rl.make_spec(name).is_lone
    assert all(warp_rl.make_spec(name).is_lone for name in warp_rl.list_envs())


@pytest.mark.parametrize("name", NAMES)
def test_pettingzoos_own(name):
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(warp_rl.make_parallel(name, seed=0), num_cycles=200)
        parallel_seed_test(lambda: warp_rl.make_parallel(name), num_cycles=20)


def test_masks_of_several_choices_are_sampled_with():
    pytest.importorskip("pettingzoo")
    env = warp_rl.make_parallel("rice_n", seed=0)
    _, infos = env.reset()
    for _ in range(3):
        masks = {agent: infos[agent]["action_mask"] for agent in env.agents}
        assert all(part.dtype == np.int8 for mask in masks.values() for part in mask)
        actions = {agent: env.action_space(agent).sample(mask) for agent, mask in masks.items()}
        for agent, action in actions.items():
            assert all(mask[choice] for mask, choice in zip(masks[agent], action, strict=True))
        *_, infos = env.step(actions)


def test_what_can_not_be_closed_is_not_called_closed():
    envs = warp_rl.make_multi("tag_gridworld")

    class Busy:
        def close(self):
            raise RuntimeError("busy")

    pool, envs._pool = envs._pool, Busy()
    with pytest.raises(RuntimeError, match="busy"):
        envs.close()
    assert not envs.closed
    envs._pool = pool
    envs.close()
    assert envs.closed


def test_who_is_caught_leaves():
    pytest.importorskip("pettingzoo")
    env = warp_rl.make_parallel("tag_gridworld", seed=0, max_episode_steps=5)
    obs, infos = env.reset()
    assert list(obs) == list(infos) == env.possible_agents == env.agents
    assert env.observation_space("tagger_0") is env.observation_space("tagger_0")
    assert env.state().shape == env.state_space.shape
    for step in range(5):
        acting = list(env.agents)
        obs, rewards, terminations, truncations, infos = env.step(dict.fromkeys(acting, 0))
        assert list(obs) == list(rewards) == list(terminations) == list(truncations) == list(infos) == acting
        if not env.agents:
            break
    assert not env.agents
    env.reset(seed=3)
    with pytest.raises(ValueError, match="lack the agent"):
        env.step({})


@pytest.mark.parametrize(
    ("name", "given", "error", "says"),
    [
        ("rice_n", 0, ValueError, r"the action of 'region_0' has shape \(\), but \(57,\) is needed"),
        ("rice_n", [0, 1], ValueError, r"the action of 'region_0' has shape \(2,\), but \(57,\) is needed"),
        ("tag_gridworld", [0, 1], ValueError, r"the action of 'tagger_0' has shape \(2,\), but \(\) is needed"),
        ("tag_gridworld", "x", TypeError, "the action of 'tagger_0' is 'x', but whole numbers are needed"),
        ("Pendulum-v1", ["1"], TypeError, r"the action of 'pendulum_0' is \['1'\], but real numbers are needed"),
    ],
)
def test_an_action_that_is_none_of_its_space_is_refused(name, given, error, says):
    pytest.importorskip("pettingzoo")
    env = warp_rl.make_parallel(name, seed=0)
    env.reset()
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    with pytest.raises(error, match=says):
        env.step({**actions, env.agents[0]: given})
    env.step(actions)


def test_a_step_before_the_first_reset_is_refused():
    pytest.importorskip("pettingzoo")
    env = warp_rl.make_parallel("tag_gridworld", seed=0, max_episode_steps=1)
    for actions in ({}, dict.fromkeys(env.possible_agents, 0)):
        with pytest.raises(RuntimeError, match="before the first reset"):
            env.step(actions)
    env.reset()
    for actions in (None, [0]):
        with pytest.raises(TypeError, match="a dictionary by agent is needed"):
            env.step(actions)
    env.step(dict.fromkeys(env.agents, 0))
    assert env.step({}) == ({}, {}, {}, {}, {}), "all have left"


def test_flags_of_a_state_are_0_or_1():
    envs = warp_rl.make_multi("tag_continuous", num_envs=2, seed=0)
    envs.reset()
    flags = envs.get_state()["replica.alive.runner"]
    with pytest.raises(ValueError, match="replica.alive = 7"):
        envs.set_state({"replica.alive.runner": np.full_like(flags, 7)})
    assert (envs.get_state()["replica.alive.runner"] == flags).all()


def test_a_tasks_own_limit_counts():
    envs = warp_rl.make_multi("CartPole-v0", seed=0)
    assert envs.spec.max_episode_steps == 200
    env = warp_rl.make_parallel("CartPole-v0", seed=0)
    assert env.spec.max_episode_steps == 200


@pytest.mark.parametrize("name", NAMES)
def test_arrays_by_group(name):
    envs = warp_rl.make_multi(name, num_envs=3, seed=4)
    one = warp_rl.make_multi(name, seed=5)
    obs, info = envs.reset()
    first, _ = one.reset()
    rng = np.random.default_rng(0)
    for _ in range(20):
        for group, agents in envs.groups.items():
            assert obs[group].shape == (3, agents, *envs.single_observation_space[group].shape)
            assert (obs[group][1] == first[group][0]).all()
        actions = {}
        for group, agents in envs.groups.items():
            space = envs.single_action_space[group]
            nvec = getattr(space, "nvec", None)
            shape = (3, agents) if nvec is None else (3, agents, len(nvec))
            actions[group] = rng.integers(0, space.n if nvec is None else nvec, shape)
        obs, reward, terminated, truncated, info = envs.step(actions)
        first, alone, *_ = one.step({group: action[1:2] for group, action in actions.items()})
        assert terminated.shape == (3,) and all((reward[g][1] == alone[g][0]).all() for g in envs.groups)
    other = pickle.loads(pickle.dumps(envs))
    a, b = envs.step(actions), other.step(actions)
    assert all((a[0][group] == b[0][group]).all() for group in envs.groups)
    with pytest.raises(ValueError, match="lack the group"):
        envs.step({})
    with pytest.raises(ValueError, match="unknown group"):
        envs.step({**actions, "nobody": [0]})
    with pytest.raises(TypeError, match="dictionary"):
        envs.step([0, 0, 0])


@pytest.mark.parametrize("day", [-1, -1000, 10**7, -(2**31), 2**31 - 1])
def test_a_day_that_there_is_not_is_refused(day):
    envs = warp_rl.make_multi("covid19", num_envs=2, seed=0)
    envs.reset()
    before = envs.get_state()
    with pytest.raises(ValueError, match=f"timestep = {day}: days are counted from 0"):
        envs.set_state({"timestep": np.array([0, day], np.int32)})
    assert all((before[key] == value).all() for key, value in envs.get_state().items())

"""Copies of environments, and states that are put into them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import warp_rl
from warp_rl import envpool
from warp_rl._single import SingleEnv

COPIES = [lambda envs: pickle.loads(pickle.dumps(envs)), copy.deepcopy]


def test_a_refused_state_is_named_and_warns_of_nothing(recwarn):
    envs = warp_rl.make("CartPole-v1", num_envs=3, seed=0)
    envs.reset()
    state = envs.get_state()
    name = next(key for key, array in state.items() if array.dtype == np.float32)
    for given, env_id, says in [
        ({key: array[[0, 1]] for key, array in state.items()}, [2, 2], "env_id holds 2 twice"),
        ({"replica.elapsed_step": np.full(3, 2**31 - 1, np.uint32)}, None, "elapsed_step.* holds 2147483647"),
        ({name: np.full(state[name].shape, 1e300)}, None, "finite"),
    ]:
        with pytest.raises(ValueError, match=says):
            envs.set_state(given, env_id)
    assert all((array == state[key]).all() for key, array in envs.get_state().items()) and not recwarn.list
    envs.set_state({"replica.elapsed_step": np.full(3, 2**31 - 2, np.uint32)})
    assert (envs.step(np.zeros(3, int))[4]["elapsed_step"] == 2**31 - 1).all()


class Derived(warp_rl.VectorEnv):
    """Environments that are made with other arguments than the class that they are derived from."""

    def __init__(self, n):
        super().__init__("CartPole-v1", num_envs=n, seed=3)
        self.note = "mine"


@pytest.mark.parametrize("copied", COPIES)
def test_copies_hold_what_they_were_given(copied):
    envs = Derived(4)
    envs.reset()
    envs.single_action_space.seed(7), envs.action_space.seed(8)
    envs.single_action_space.sample(), envs.action_space.sample()
    other = copied(envs)
    assert type(other) is Derived and other.note == "mine" and other.num_envs == 4
    assert other.single_action_space.sample() == envs.single_action_space.sample()
    actions = envs.action_space.sample()
    assert (other.action_space.sample() == actions).all()
    assert (other.step(actions)[0] == envs.step(actions)[0]).all()
    multi = warp_rl.make_multi("tag_gridworld", num_envs=2, seed=0)
    multi.mine = [1]
    assert copied(multi).mine == [1]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_go_on_with_those_of_the_last_answer(copied):
    envs = warp_rl.make("CartPole-v1", num_envs=2, batch_size=1, seed=0)
    envs.async_reset()
    envs.recv(), envs.recv()
    last = envs._pool.going_on
    other = copied(envs)
    other.send([1])
    assert other.recv()[4]["env_id"].tolist() == last


class Alone(SingleEnv):
    """One environment that is made with other arguments than the class that it is derived from."""

    def __init__(self, note):
        super().__init__("MountainCar-v0", render_mode="rgb_array", max_episode_steps=30)
        self.note = note


class Drop(envpool.GymnasiumEnvPool):
    """The same of EnvPool's."""

    def __init__(self, note):
        super().__init__("MountainCar-v0", num_envs=1, render_mode="rgb_array", max_episode_steps=30)
        self.note = note


@pytest.mark.parametrize("derived", [Alone, Drop])
@pytest.mark.parametrize("copied", COPIES)
def test_copies_are_not_made_as_derived_classes_are(derived, copied):
    env = derived("mine")
    env.reset()
    act = 2 if derived is Alone else np.array([2])
    env.step(act)
    other = copied(env)
    assert type(other) is derived and other.note == "mine"
    assert (np.asarray(other.render()) == np.asarray(env.render())).all()
    for _ in range(29):
        ours, theirs = env.step(act), other.step(act)
        assert (ours[0] == theirs[0]).all()
    assert ours[3] and theirs[3]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_of_several_agents_are_not_made_as_derived_classes_are(copied):
    pytest.importorskip("pettingzoo")

    class Together(warp_rl.ParallelEnv):
        def __init__(self, note):
            super().__init__("tag_gridworld", seed=4)
            self.note = note

    globals()["Together"], Together.__qualname__ = Together, "Together"
    env = Together("mine")
    env.reset()
    other = copied(env)
    assert type(other) is Together and other.note == "mine" and other.agents == env.agents
    acts = {agent: env.action_space(agent).sample() for agent in env.agents}
    ours, theirs = env.step(acts)[0], other.step(acts)[0]
    assert all((ours[agent] == theirs[agent]).all() for agent in env.agents)


@pytest.mark.parametrize("copied", COPIES)
def test_descriptions_are_copied(copied):
    for spec in (warp_rl.make_spec("Pendulum-v1", gravity=3.0), envpool.make_spec("Pendulum-v1", num_envs=3, seed=[1, 2, 3])):
        other = copied(spec)
        assert type(other) is type(spec) and other.config._asdict() == spec.config._asdict()

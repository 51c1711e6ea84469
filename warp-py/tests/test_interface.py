"""Names, signatures and defaults, as they are promised; what every object of the package can do."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

import warp_rl
import warp_rl._single

#: Arguments of `make` and `make_multi` after the first, with their defaults.
DEFAULTS = {
    "num_envs": 1,
    "batch_size": None,
    "num_threads": 0,
    "thread_affinity_offset": -1,
    "seed": None,
    "max_episode_steps": None,
    "autoreset_mode": "next_step",
    "device": "cpu",
    "copy": True,
    "output": "numpy",
    "render_mode": None,
}


@pytest.mark.parametrize("make", [warp_rl.make, warp_rl.make_multi, warp_rl.VectorEnv.__init__])
def test_arguments_have_their_names_and_defaults(make):
    parameters = inspect.signature(make).parameters
    named = {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert named == DEFAULTS
    assert [one.kind for one in parameters.values()][-1] is inspect.Parameter.VAR_KEYWORD


def test_names_are_there():
    for name in [*warp_rl.__all__, "__version__", "envpool"]:
        assert getattr(warp_rl, name) is not None or name == "mujoco_version"
    names = {"reset": ["seed", "options"], "step": ["actions", "env_id"], "send": ["actions", "env_id"], "recv": []}
    names |= {"async_reset": ["env_id"], "set_state": ["state", "env_id"], "buffer": ["name"], "render": ["env_id"]}
    for method, arguments in names.items():
        assert list(inspect.signature(getattr(warp_rl.VectorEnv, method)).parameters)[1:] == arguments


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"num_envs": 2**40}, ValueError, "at most 16777216"),
        ({"max_episode_steps": 2**31}, ValueError, "max_episode_steps is 2147483648"),
        ({"thread_affinity_offset": "x"}, TypeError, "thread_affinity_offset is 'x'"),
        ({"thread_affinity_offset": -2}, ValueError, "thread_affinity_offset is -2"),
        ({"thread_affinity_offset": 2**70}, ValueError, "thread_affinity_offset is 1180591620717411303424"),
        ({"autoreset_mode": []}, ValueError, r"autoreset_mode is \[\]"),
        ({"seed": [0] * 10_000}, ValueError, "seed has 10000 numbers"),
        ({"seed": ["0"] * 10_000, "num_envs": 10_000}, TypeError, r"seed is \['0', .{200,280}needed$"),
        ({"copy": "yes"}, ValueError, "copy is 'yes'"),
        ({"seed": 2**64}, ValueError, "seed is 18446744073709551616"),
        ({"seed": [0, 2**64], "num_envs": 2}, ValueError, "64 bits"),
        ({"num_threads": 2**70}, ValueError, "num_threads is 1180591620717411303424"),
        ({"batch_size": 2**70}, ValueError, "batch_size is 1180591620717411303424"),
        ({"start_range": 2**70}, ValueError, "start_range is 1180591620717411303424"),
        ({"num_envs": True}, TypeError, "num_envs is True"),
        ({"seed": True}, TypeError, "seed is True"),
        ({"seed": np.array(0.5)}, TypeError, r"seed is array\(0.5\)"),
        ({"copy": np.zeros(2)}, ValueError, r"copy is array\(\[0., 0.\]\)"),
    ],
)
def test_numbers_beyond_all_bounds_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        warp_rl.make("CartPole-v1", **arguments)


def test_a_list_that_holds_itself_is_no_option():
    endless: list = []
    endless.append(endless)
    around: dict = {}
    around["around"] = around
    for value in (endless, around):
        with pytest.raises(ValueError, match="more than 16 lists or dictionaries"):
            warp_rl.make("FrozenLake-v1", reward_schedule=value)


def test_what_is_loaded_later_is_listed():
    assert {*warp_rl.__all__, "__version__", "envpool", "sb3"} <= set(dir(warp_rl))
    assert set(warp_rl.envpool.__all__) <= set(dir(warp_rl.envpool))


def test_a_tasks_limit_is_its_own_whatever_its_options():
    assert warp_rl.make_spec("FrozenLake-v1", map_name="8x8").max_episode_steps == 100
    assert warp_rl.make_spec("FrozenLake8x8-v1").max_episode_steps == 200
    assert warp_rl.make_spec("CartPole-v0", episode_length=7).max_episode_steps == 7
    envs = warp_rl.make("CartPole-v0", episode_length=7, seed=0)
    envs.reset()
    cut = [envs.step([step % 2])[3][0] for step in range(7)]
    assert cut == [False] * 6 + [True]


def test_buffers_begin_with_what_every_task_has():
    assert warp_rl.make("Taxi-v4").buffer_names()[:4] == ["obs", "reward", "terminated", "truncated"]


def test_environments_of_several_agents_have_spaces():
    envs = warp_rl.make_multi("tag_gridworld", num_envs=3, seed=0, autoreset_mode="same_step")
    obs, _ = envs.reset()
    assert envs.observation_space.contains(obs)
    group, single = next(iter(envs.single_action_space.items()))
    assert envs.action_space[group] == batch_space(batch_space(single, envs.groups[group]), 3)
    envs.step(envs.action_space.sample())
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP and envs.render() is None and not envs.closed
    envs.close()
    assert envs.closed


def test_actions_may_come_by_dlpack_alone():
    class Tensor:
        """What knows nothing of NumPy."""

        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **asked):
            return self._array.__dlpack__(**asked)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    one, other = (warp_rl.make("Pendulum-v1", num_envs=2, seed=0) for _ in range(2))
    one.reset(), other.reset()
    actions = np.array([[0.5], [-1.0]], np.float32)
    for given in (Tensor(actions), Tensor(actions.astype(np.float64)), actions.astype(">f4"), memoryview(actions)):
        assert (one.step(given)[0] == other.step(actions)[0]).all()


def _single():
    import gymnasium

    return gymnasium.make("warp_rl/FrozenLake-v1").unwrapped


def _parallel():
    pytest.importorskip("pettingzoo")
    return warp_rl.make_parallel("tag_gridworld")


@pytest.mark.parametrize("make", [_single, _parallel])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_one_environment_is_copied_with_its_state(make, again):
    env = make()
    env.reset(seed=3)
    twin = again(env)
    agents = getattr(env, "agents", None)
    for _ in range(5):
        action = 1 if agents is None else dict.fromkeys(agents, 1)
        assert str(env.step(action)) == str(twin.step(action))
    assert str(env.reset()) == str(twin.reset())


def test_specs_are_pickled():
    spec = pickle.loads(pickle.dumps(warp_rl.make_spec("FrozenLake-v1", map_name="8x8", max_episode_steps=9)))
    assert spec.max_episode_steps == 9 and spec.config.map_name == "8x8"


def test_batches_of_dm_env_take_threads_and_draw_by_chance():
    pytest.importorskip("dm_env")
    many = warp_rl.make("CartPole-v1", "dm", num_envs=4, batch_size=2, num_threads=2)
    assert many.is_async and many.reset().observation.obs.shape == (4, 4)
    starts = [warp_rl.make_dm("CartPole-v1", 4).reset().observation.obs for _ in range(2)]
    assert (starts[0] != starts[1]).any()
    alone = warp_rl.make("CartPole-v1", "dm", num_threads=2, seed=5)
    assert (alone.reset().observation == warp_rl.make("CartPole-v1", seed=5).reset()[0][0]).all()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda envs: envs.reset(options=[1]), TypeError, r"options is \[1\]"),
        (lambda envs: envs.set_state([1]), TypeError, r"state is \[1\]"),
        (lambda envs: envs.set_state({3: 1}), TypeError, r"state is \{3: 1\}"),
        (lambda envs: envs.render([4]), ValueError, "env_id holds 4"),
        (lambda envs: envs.render([-1]), ValueError, "env_id holds -1"),
        (lambda envs: envs.render([0.5]), TypeError, r"env_id is \[0.5\]"),
        (lambda envs: envs.step(np.zeros(1, int), np.zeros(0, complex)), ValueError, "actions has shape"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_wrong_is_named(call, error, says):
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0, render_mode="rgb_array")
    envs.reset()
    with pytest.raises(error, match=says) as raised:
        call(envs)
    assert "\n" not in str(raised.value)


def test_what_is_closed_says_so_before_all_else():
    one, many = warp_rl.make("CartPole-v1", num_envs=2), warp_rl.make_multi("tag_gridworld", num_envs=2)
    for envs in (one, many):
        envs.close()
        for call in (lambda: envs.step(None), lambda: envs.send({}), lambda: envs.async_reset("x"), envs.recv, envs.reset):
            with pytest.raises(RuntimeError, match="closed"):
                call()


def test_several_agents_need_their_own_interfaces():
    pytest.importorskip("dm_env")
    for make in (warp_rl.make, warp_rl.make_dm, warp_rl._single.SingleEnv):
        with pytest.raises(ValueError, match="has several agents.*make_multi"):
            make("tag_gridworld")


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("output", ["torch", "dlpack"])
def test_environments_of_several_agents_answer_as_it_is_asked_for(mode, output):
    if output == "torch":
        pytest.importorskip("torch")
    given = {"num_envs": 5, "seed": 0, "max_episode_steps": 7, "autoreset_mode": mode}
    here, there = warp_rl.make_multi("tag_continuous", **given), warp_rl.make_multi("tag_continuous", output=output, **given)
    _same(here.reset(), there.reset())
    first = None
    for step in range(20):
        ids = None if step % 3 else np.array([4, 1])
        actions = {group: space.sample()[: 5 if ids is None else 2] for group, space in here.action_space.items()}
        one, other = here.step(actions, ids), there.step(actions, ids)
        last = [[answer[4].pop(key, None) for key in ("final_obs", "final_info")] for answer in (one, other)]
        _same(one, other)
        if (ended := one[4].get("_final_obs")) is not None:
            _same(*([_rows(arrays, ended) for arrays in given] for given in last))
            whose = one[4]["env_id"][ended]
            _same(_rows(here.final_obs, whose), _rows(there.final_obs, whose))
        if ids is None:
            first = first or other[0]
            assert all(first[group] is other[0][group] for group in first), "tensors are made once"
    for name in here.buffer_names():
        _same(here.buffer(name), there.buffer(name))
    obs = here.step(here.action_space.sample())[0]
    _same(obs, here.buffer("obs"))


def _rows(arrays, chosen):
    if isinstance(arrays, dict):
        return {key: _rows(array, chosen) for key, array in arrays.items()}
    return np.asarray(arrays)[chosen]


def _same(here, there):
    if isinstance(here, dict):
        assert list(here) == list(there)
        here, there = list(here.values()), list(there.values())
    if isinstance(here, tuple | list):
        for one, other in zip(here, there, strict=True):
            _same(one, other)
    else:
        one, other = np.asarray(here), np.asarray(there)
        assert one.dtype == other.dtype and (one == other).all()


def test_seeds_of_numpy_begin_one_environment():
    env = _single()
    assert env.reset(seed=np.int64(3)) == env.reset(seed=3)

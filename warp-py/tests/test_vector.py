"""Gymnasium's vector environment: spaces, modes, seeds, masks, what is refused."""

from __future__ import annotations

import pickle

import gymnasium
import numpy as np
import pytest
from conftest import actions_of
from gymnasium.vector import AutoresetMode

import warp_rl

GYMNASIUM = [
    "CartPole-v0",
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "Taxi-v4",
]


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("task_id", GYMNASIUM)
def test_tasks_look_like_gymnasiums(task_id):
    if task_id not in gymnasium.registry:
        pytest.skip(f"Gymnasium {gymnasium.__version__} has no {task_id}")
    theirs = gymnasium.make(task_id)
    spec = warp_rl.make_spec(task_id)
    assert spec.observation_space == theirs.observation_space
    assert spec.action_space == theirs.action_space
    assert spec.max_episode_steps == theirs.spec.max_episode_steps
    assert spec.reward_threshold == theirs.spec.reward_threshold
    ours = warp_rl.make(task_id, num_envs=2, seed=0)
    _, info = theirs.reset(seed=0)
    _, our_info = ours.reset()
    assert set(info) <= set(our_info)
    _, _, _, _, info = theirs.step(theirs.action_space.sample())
    _, _, _, _, our_info = ours.step(ours.action_space.sample())
    for key, value in info.items():
        assert our_info[key].shape == (2, *np.shape(value))
        assert our_info[key].dtype == np.asarray(value).dtype, key
        assert our_info["_" + key].all()
    assert type(theirs.unwrapped.observation_space) is type(ours.single_observation_space)


def test_every_task_stays_within_its_spaces():
    for task_id in warp_rl.list_envs():
        envs = warp_rl.make(task_id, num_envs=3, seed=0)
        obs, info = envs.reset(seed=1)
        assert envs.observation_space == gymnasium.vector.utils.batch_space(envs.single_observation_space, 3)
        for _ in range(100):
            assert envs.observation_space.contains(obs), task_id
            obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
            assert reward.dtype == np.float32 and reward.shape == (3,)
            assert terminated.dtype == truncated.dtype == np.bool_
            assert not (terminated & truncated).any()
            assert info["env_id"].dtype == info["elapsed_step"].dtype == np.int32
        envs.close()


@pytest.mark.parametrize("num_envs", [1, 5, 200])
def test_environment_i_of_a_seed_is_the_only_one_of_seed_plus_i(task, num_envs):
    envs = warp_rl.make(task, num_envs=num_envs, num_threads=2)
    seen = [envs.reset(seed=40)[0]]
    answers = [envs.step(actions_of(envs, step)) for step in range(80)]
    seen += [answer[0] for answer in answers]
    for i in {0, num_envs // 2, num_envs - 1}:
        one = warp_rl.make(task, seed=40 + i)
        assert (one.reset()[0][0] == seen[0][i]).all()
        for step in range(80):
            obs, reward, terminated, truncated, info = one.step(actions_of(envs, step)[i : i + 1])
            assert (obs[0] == seen[step + 1][i]).all(), (task, i, step)
            assert reward[0] == answers[step][1][i]
            assert terminated[0] == answers[step][2][i] and truncated[0] == answers[step][3][i]
            assert info["elapsed_step"][0] == answers[step][4]["elapsed_step"][i]


def test_seeds_are_numbers_lists_or_nothing():
    envs = warp_rl.make("CartPole-v1", num_envs=3)
    obs = [envs.reset(seed=seed)[0] for seed in (7, [7, 8, 9], np.array([7, 8, 9]))]
    assert (obs[0] == obs[1]).all() and (obs[0] == obs[2]).all()
    assert (envs.reset()[0] != obs[0]).all(), "without a seed the streams go on"
    assert (envs.reset(seed=2**64 - 2)[0][2] == warp_rl.make("CartPole-v1", seed=0).reset()[0][0]).all()
    assert (warp_rl.make("CartPole-v1").reset()[0] != warp_rl.make("CartPole-v1").reset()[0]).any()
    for bad in (-1, [1, 2], [1, 2, -3]):
        with pytest.raises(ValueError, match="seed"):
            envs.reset(seed=bad)
    with pytest.raises(TypeError, match="seed is 'x'"):
        envs.reset(seed="x")


def test_what_was_handed_out_does_not_change():
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0)
    kept = [envs.reset()[0]]
    copies = [kept[0].copy()]
    for step in range(50):
        obs = envs.step(actions_of(envs, step))[0]
        kept.append(obs[1:][::-1])
        copies.append(obs[1:][::-1].copy())
    assert all((one == other).all() for one, other in zip(kept, copies, strict=True))
    addresses = {envs.step(actions_of(envs, step))[0].ctypes.data for step in range(50)}
    assert len(addresses) <= 2, "memory that nobody has is used again"


def test_without_copy_it_is_the_same_memory():
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0, copy=False)
    first, _ = envs.reset()
    before = first.copy()
    second = envs.step(actions_of(envs, 0))[0]
    assert second.ctypes.data == first.ctypes.data
    assert (first == second).all() and (first != before).any()


def test_next_step_shows_the_last_observation_and_then_begins():
    envs = warp_rl.make("CartPole-v1", num_envs=8, seed=0)
    envs.reset()
    ended = np.zeros(8, bool)
    seen = 0
    for _ in range(200):
        # The action of a row that begins is not even looked at.
        actions = np.where(ended, 77, 1)
        obs, reward, terminated, truncated, info = envs.step(actions)
        assert (reward == np.where(ended, 0.0, 1.0)).all()
        assert ((info["elapsed_step"] == 0) == ended).all()
        assert not terminated[ended].any()
        beyond = (np.abs(obs[:, 0]) > 2.4) | (np.abs(obs[:, 2]) > 0.2094395)
        assert (terminated == beyond).all()
        seen += terminated.sum()
        ended = terminated | truncated
    assert seen > 50
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_same_step_is_gymnasiums(task):
    envs = warp_rl.make(task, num_envs=6, seed=3, autoreset_mode="same_step", max_episode_steps=20)
    twins = warp_rl.make(task, num_envs=6, seed=3, max_episode_steps=20)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, _ = envs.reset()
    assert (obs == twins.reset()[0]).all()
    moved, ends = np.zeros(6, int), 0
    for _ in range(60):
        # Each environment of the twins is moved once more where an episode begins.
        ids = np.arange(6)
        actions = np.concatenate([actions_of(envs, moved[i], ids[i : i + 1]) for i in range(6)])
        obs, reward, terminated, truncated, info = envs.step(actions)
        last, their_reward, *flags, their_info = twins.step(actions)
        assert (reward == their_reward).all()
        assert (terminated == flags[0]).all() and (truncated == flags[1]).all()
        ended = terminated | truncated
        moved += 1
        assert ("final_obs" in info) == ended.any()
        for i in ids[~ended]:
            assert (obs[i] == last[i]).all()
        if ended.any():
            ends += ended.sum()
            assert (info["_final_obs"] == ended).all() and (info["_final_info"] == ended).all()
            begun, _, _, _, _ = twins.step(actions[ended], ids[ended])
            assert (obs[ended] == begun).all()
            assert (envs.final_obs[ended] == last[ended]).all()
            final = info["final_info"]
            assert (final["elapsed_step"][ended] == their_info["elapsed_step"][ended]).all()
            assert (final["_elapsed_step"] == ended).all()
            assert (info["elapsed_step"][ended] == 0).all()
            for i in ids:
                if ended[i]:
                    assert (info["final_obs"][i] == last[i]).all()
                else:
                    assert info["final_obs"][i] is None
    assert ends > 6


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_last_observations_have_a_row_for_every_environment(mode):
    envs, twins = (
        warp_rl.make("CartPole-v1", num_envs=5, seed=0, max_episode_steps=2, autoreset_mode=mode)
        for mode in (mode, "next_step")
    )
    envs.reset(), twins.reset()
    envs.step([1] * 5), twins.step([1] * 5)
    last = twins.step([1] * 5)[0]
    for ids in ([3, 1], [2, 0, 4]):
        assert envs.step([1] * len(ids), ids)[3].all()
        assert envs.final_obs.shape == (5, 4) and (envs.final_obs[ids] == last[ids]).all()


@pytest.mark.parametrize("kept", [0, 3, 20])
def test_what_is_refused_leaves_the_last_answer(kept):
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0, autoreset_mode="same_step", max_episode_steps=2)
    answers = [envs.reset()]
    for _ in range(kept + 1 + kept % 2):
        answers.append(envs.step([0] * 4))
    answers = answers[-kept:] if kept else []
    obs = envs.step([0] * 4)[0].copy() if not kept else answers[-1][0]
    final = envs.final_obs.copy()
    for actions, ids in (([9, 0, 0, 0], None), ([9], [1])):
        with pytest.raises(ValueError, match="actions"):
            envs.step(actions, ids)
        assert envs.final_obs.shape == final.shape and (envs.final_obs == final).all()
    assert (np.asarray(envs.buffer("obs")) == obs).all()


def test_disabled_refuses_what_has_ended_until_it_is_reset():
    envs = warp_rl.make("CartPole-v1", num_envs=3, seed=0, autoreset_mode=AutoresetMode.DISABLED)
    obs, _ = envs.reset()
    ended = np.zeros(3, bool)
    while not ended.any():
        obs, _, terminated, truncated, _ = envs.step(np.ones(3, int))
        ended = terminated | truncated
    state = envs.get_state()
    with pytest.raises(ValueError, match="has ended"):
        envs.step(np.ones(3, int))
    assert all((envs.get_state()[key] == state[key]).all() for key in state), "nothing has moved"
    after, info = envs.reset(options={"reset_mask": ended})
    assert (after[~ended] == obs[~ended]).all() and (after[ended] != obs[ended]).all()
    assert (info["_elapsed_step"] == ended).all() and (info["elapsed_step"][ended] == 0).all()
    envs.step(np.ones(3, int))


def test_a_mask_resets_some_and_seeds_them():
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0)
    envs.reset()
    before = envs.step(np.ones(4, int))[0]
    mask = np.array([True, False, False, True])
    after, _ = envs.reset(seed=100, options={"reset_mask": mask})
    assert (after[1:3] == before[1:3]).all()
    assert (after[3] == warp_rl.make("CartPole-v1", seed=103).reset()[0][0]).all()
    for bad, error in [
        ([True] * 4, TypeError),
        (np.ones(4, int), TypeError),
        (np.ones(3, bool), ValueError),
        (np.zeros(4, bool), ValueError),
    ]:
        with pytest.raises(error, match="reset_mask"):
            envs.reset(options={"reset_mask": bad})


def test_some_are_stepped_in_any_order():
    envs = warp_rl.make("CartPole-v1", num_envs=5, seed=0)
    obs, _ = envs.reset()
    some, reward, _, _, info = envs.step(np.ones(2, int), np.array([3, 1], np.int32))
    assert some.shape == (2, 4) and (info["env_id"] == [3, 1]).all()
    assert info["_env_id"].shape == (2,)
    again = warp_rl.make("CartPole-v1", num_envs=5, seed=0)
    again.reset()
    assert (again.step(np.ones(5, int))[0][[3, 1]] == some).all()
    for ids, says in [([0, 5], "5"), ([-1], "-1"), ([2, 2], "2"), ([[1]], "env_id")]:
        with pytest.raises(ValueError, match=says):
            envs.step(np.ones(len(ids), int), ids)


@pytest.mark.parametrize(
    ("actions", "error"),
    [
        ([0, 1], ValueError),
        ([0, 1, 2], ValueError),
        ([0, -1, 0], ValueError),
        ([0.0, 1.0, 0.0], TypeError),
        (np.zeros((3, 1), int), ValueError),
        (np.zeros((0,), int), ValueError),
        ("abc", TypeError),
        (None, TypeError),
        ([2**40, 0, 0], ValueError),
        (np.array([2**63, 0, 0], np.uint64), ValueError),
        ([True, False, True], TypeError),
        ([0j, 0, 0], TypeError),
    ],
)
def test_actions_that_are_refused_move_nothing(actions, error):
    envs = warp_rl.make("CartPole-v1", num_envs=3, seed=0)
    envs.reset()
    state = envs.get_state()
    with pytest.raises(error, match="actions") as raised:
        envs.step(actions)
    assert "\n" not in str(raised.value)
    assert all((envs.get_state()[key] == state[key]).all() for key in state)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"])
def test_any_integers_are_actions(dtype):
    envs = warp_rl.make("CartPole-v1", num_envs=3, seed=0)
    twin = warp_rl.make("CartPole-v1", num_envs=3, seed=0)
    envs.reset(), twin.reset()
    strided = np.array([[0, 1, 0], [1, 1, 1]], dtype).T[:, 0]
    assert (envs.step(strided)[0] == twin.step([0, 1, 0])[0]).all()
    assert (envs.step((1, 0, 1))[0] == twin.step(np.array([1, 9, 0, 9, 1])[::2])[0]).all()


@pytest.mark.filterwarnings("error")
def test_real_actions():
    envs = warp_rl.make("Pendulum-v1", num_envs=2, seed=0)
    envs.reset()
    for actions in (np.zeros((2, 1)), np.zeros((2, 1), np.float16), [[0], [1]], np.zeros((1, 2), np.float32).T):
        envs.step(actions)
    for bad in (np.zeros(2), [[np.nan], [0]], [[np.inf], [0]], [[1e300], [0]]):
        with pytest.raises(ValueError, match="actions"):
            envs.step(bad)
    with pytest.raises(TypeError, match="actions"):
        envs.step([["a"], ["b"]])


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"num_envs": 0}, ValueError, "num_envs is 0"),
        ({"num_envs": -3}, ValueError, "num_envs is -3"),
        ({"num_envs": 1.5}, TypeError, "num_envs is 1.5"),
        ({"batch_size": 3}, ValueError, "batch_size is 3"),
        ({"batch_size": 0}, ValueError, "batch_size is 0"),
        ({"num_threads": -1}, ValueError, "num_threads is -1"),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps is 0"),
        ({"env_type": "parallel"}, ValueError, "num_envs is 2"),
        ({"env_type": "torch"}, ValueError, "env_type is 'torch'"),
        ({"autoreset_mode": "later"}, ValueError, "autoreset_mode is 'later'"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"start_range": 5.0}, ValueError, "start_range"),
        ({"starting_range": 0.1}, TypeError, "starting_range"),
        ({"start_range": object()}, TypeError, "start_range"),
        ({"device": "tpu"}, ValueError, "device is 'tpu'"),
        ({"output": "lists"}, ValueError, "output is 'lists'"),
        ({"render_mode": "human"}, ValueError, "render_mode is 'human'"),
    ],
)
def test_arguments_that_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        warp_rl.make("CartPole-v1", **{"num_envs": 2, **arguments})


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(ValueError, match="'CartPol-v1'.*'CartPole-v1'"):
        warp_rl.make("CartPol-v1")
    with pytest.raises(TypeError):
        warp_rl.make(3)
    with pytest.raises(ValueError, match="several agents"):
        warp_rl.make("tag_gridworld")


def test_limits_truncate():
    assert warp_rl.make_spec("FrozenLake-v1", max_episode_steps=3).max_episode_steps == 3
    envs = warp_rl.make("Pendulum-v1", num_envs=1, max_episode_steps=3)
    envs.reset()
    assert [bool(envs.step([[0.0]])[3][0]) for _ in range(8)] == [False, False, True, False] * 2


def test_pickle_goes_on_bit_for_bit(task):
    envs = warp_rl.make(task, num_envs=7, seed=5)
    envs.reset()
    for step in range(30):
        envs.step(actions_of(envs, step))
    other = pickle.loads(pickle.dumps(envs))
    assert other.num_envs == 7 and other.spec.id == envs.spec.id
    for step in range(30, 60):
        one, two = envs.step(actions_of(envs, step)), other.step(actions_of(envs, step))
        assert all((a == b).all() for a, b in zip(one[:4], two[:4], strict=True))


def test_state_is_taken_and_put_back(task):
    envs = warp_rl.make(task, num_envs=4, seed=1)
    envs.reset()
    state = envs.get_state()
    first = envs.step(actions_of(envs, 0))
    envs.set_state(state)
    assert (envs.step(actions_of(envs, 0))[0] == first[0]).all()
    envs.set_state({key: value[[2]] for key, value in state.items()}, env_id=[2])
    assert (envs.step(actions_of(envs, 0)[[2]], [2])[0] == first[0][[2]]).all()


def test_states_that_are_refused_change_nothing():
    envs = warp_rl.make("FrozenLake-v1", num_envs=2, seed=0, is_slippery=False)
    envs.reset()
    envs.set_state({"state": [14, 0]})
    obs, reward, terminated, _, _ = envs.step([2, 2])
    assert obs.tolist() == [15, 1] and reward.tolist() == [1.0, 0.0] and terminated.tolist() == [True, False]
    before = envs.get_state()
    for bad in ({"state": [16, 0]}, {"state": [-1, 0]}, {"state": [0]}, {"replica.phase": [9, 0]}):
        with pytest.raises(ValueError):
            envs.set_state(bad)
    with pytest.raises(KeyError):
        envs.set_state({"nothing": [0, 0]})
    with pytest.raises(TypeError, match="float64"):
        envs.set_state({"state": [0.5, np.nan]})
    with pytest.raises(ValueError, match="int32"):
        envs.set_state({"state": [2**40, 0]})
    assert all((envs.get_state()[key] == before[key]).all() for key in before)
    pole = warp_rl.make("CartPole-v1", num_envs=1)
    pole.reset()
    with pytest.raises(ValueError, match="finite"):
        pole.set_state({"x": [np.nan]})


@pytest.mark.parametrize(
    ("task", "field", "value"), [("Taxi-v4", "state", 1000), ("Blackjack-v1", "dealer_sum", -(2**31))]
)
def test_states_of_what_begins_next_are_checked(task, field, value):
    envs = warp_rl.make(task, num_envs=2, seed=0)
    state = envs.get_state()
    assert (state["replica.phase"] == 0).all()
    envs.set_state(state)
    state[field][1] = value
    with pytest.raises(ValueError, match=f"{field} = {value}"):
        envs.set_state(state)
    envs.step(np.zeros(2, int))


def test_closing_is_final_and_may_be_repeated():
    envs = warp_rl.make("CartPole-v1", num_envs=2)
    kept, _ = envs.reset()
    envs.close()
    envs.close()
    assert envs.closed and kept.shape == (2, 4) and np.isfinite(kept).all()
    with pytest.raises(RuntimeError, match="closed"):
        envs.step([0, 0])


def test_make_vec_and_wrappers():
    envs = gymnasium.make_vec("warp_rl/CartPole-v1", num_envs=5)
    assert isinstance(envs, warp_rl.VectorEnv) and envs.spec.id == "warp_rl/CartPole-v1"
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    envs = gymnasium.wrappers.vector.NormalizeObservation(envs)
    envs = gymnasium.wrappers.vector.ClipReward(envs, -1, 1)
    obs, _ = envs.reset(seed=0)
    returns = []
    for _ in range(200):
        obs, _, terminated, truncated, info = envs.step(envs.action_space.sample())
        if "episode" in info:
            mask = info["_episode"]
            assert (info["episode"]["r"][mask] == info["episode"]["l"][mask]).all()
            returns += info["episode"]["r"][mask].tolist()
    assert len(returns) > 10 and 10 < np.mean(returns) < 60
    listed = gymnasium.wrappers.vector.DictInfoToList(warp_rl.make("Taxi-v4", num_envs=2, seed=0))
    _, info = listed.reset()
    assert [one["elapsed_step"] for one in info] == [0, 0] and info[1]["action_mask"].shape == (6,)


def test_seeds_come_with_a_state():
    one = warp_rl.make("Taxi-v4", num_envs=3, seed=40)
    one.reset()
    other = warp_rl.make("Taxi-v4", num_envs=3, seed=7)
    other.set_state({key: value[[2]] for key, value in one.get_state().items()}, env_id=[0])
    assert other._pool.seeds == [42, 8, 9]
    with pytest.raises(ValueError):
        other.set_state({"replica.seed_low": np.array([1, 2, 3], np.uint32), "state": np.full(3, 9999, np.int32)})
    assert other._pool.seeds == [42, 8, 9]


def test_an_option_that_is_misspelled_is_named():
    with pytest.raises(TypeError, match="has no option 'episode_lenght'.*did you mean 'episode_length'"):
        warp_rl.make("CartPole-v1", episode_lenght=3)


def test_a_hand_that_there_is_not_is_refused():
    envs = warp_rl.make("Blackjack-v1", num_envs=2, seed=0)
    envs.reset()
    with pytest.raises(ValueError, match="dealer_sum = -1000000: hands count from 0 to 31"):
        envs.set_state({"dealer_sum": [5, -1_000_000]})
    envs.set_state({"player_sum": [12, 31]})
    envs.set_state(envs.get_state())


def test_the_mask_of_a_reset_stays_what_it_was():
    envs = warp_rl.make("CartPole-v1", num_envs=3, seed=0)
    envs.reset()
    mask = np.array([True, False, True])
    _, info = envs.reset(options={"reset_mask": mask})
    mask[:] = False
    assert info["_elapsed_step"].tolist() == info["_env_id"].tolist() == [True, False, True]


def test_options_of_a_reset_that_are_unknown_are_refused():
    for envs in (warp_rl.make("CartPole-v1"), warp_rl.make_multi("tag_gridworld"), warp_rl.envpool.make_gym("CartPole-v1")):
        with pytest.raises(ValueError, match="options has 'low', 'high', but only 'reset_mask' is possible"):
            envs.reset(options={"low": 0, "high": 1})
        envs.reset(options={})


@pytest.mark.parametrize(
    "config", [{"map_name": "x" * 900}, {"success_rate": [1] * 900}, {"success_rate": 10**900}, {"reward_schedule": [2] * 900}]
)
def test_long_values_are_shortened_in_errors(config):
    with pytest.raises(ValueError, match=r"\.\.\.") as refused:
        warp_rl.make("FrozenLake-v1", **config)
    assert len(str(refused.value)) < 300

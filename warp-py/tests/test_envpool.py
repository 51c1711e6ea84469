"""The module in EnvPool's place, held against its rules and, where it is installed, against EnvPool."""

from __future__ import annotations

import pickle

import gymnasium
import numpy as np
import pytest

from warp_rl import envpool

TASKS = ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "FrozenLake-v1", "CliffWalking-v0", "Taxi-v3", "Blackjack-v1"]
TASKS += ["Catch-v0", "NChain-v0"]


@pytest.mark.parametrize("wrong", [2**32, -(2**32) + 1, 2**31, np.nan, np.inf, -np.inf, 2.0**32, 1e300])
@pytest.mark.filterwarnings("error")
def test_numbers_that_int32_does_not_have_are_refused(wrong):
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=2)
    envs.reset()
    for action, env_id, name in [([0, wrong], None, "action"), ([0, 1], [0, wrong], "env_id")]:
        with pytest.raises(ValueError, match=f"{name} holds .*, which is out of range"):
            envs.send(np.array(action), None if env_id is None else np.array(env_id))
    pendulum = envpool.make_gymnasium("Pendulum-v1")
    pendulum.reset()
    with pytest.raises(ValueError, match="action"):
        pendulum.step(np.array([[1e300]]))
    envs.step(np.array([0.7, 1.9]), np.array([0, 1], np.float16))
    envs.step(np.array([0, 1], np.uint64), np.array([1, 0], np.int8))
    envs.step(np.array([True, False]))


def test_gymnasiums_side():
    envs = envpool.make("Taxi-v3", env_type="gym", num_envs=3)
    assert len(envs) == envs.num_envs == 3 and not envs.is_async
    assert (envs.all_env_ids == [0, 1, 2]).all() and envs.all_env_ids.dtype == np.int32
    assert envs.observation_space == envs.single_observation_space and envs.observation_space.n == 500
    assert envs.metadata["autoreset_mode"].name == "NEXT_STEP"
    assert envs.config["seed"] == 42 and envs.spec.config.max_episode_steps == 200
    obs, info = envs.reset()
    assert obs.dtype == np.int32 and obs.shape == (3,)
    assert set(info) == {"env_id", "players", "elapsed_step"}
    assert (info["players"]["env_id"] == info["env_id"]).all() and (info["elapsed_step"] == 0).all()
    obs, reward, terminated, truncated, info = envs.step(np.zeros(3, np.int64))
    assert reward.dtype == np.float32 and (info["elapsed_step"] == 1).all()
    obs, *_, info = envs.step(np.zeros(2), np.array([2, 0]))
    assert obs.shape == (2,) and info["env_id"].tolist() == [2, 0]
    obs, info = envs.reset(np.array([1]))
    assert info["env_id"].tolist() == [1] and info["elapsed_step"].tolist() == [0]
    with pytest.warns(UserWarning, match="seed"):
        envs.reset(seed=3)
    obs, info = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert info["env_id"].tolist() == [0, 2]


def test_wrappers_of_one_environment_and_of_many_take_them():
    class Counts(gymnasium.Wrapper):
        """What CleanRL's scripts do: returns and lengths of all, by the wrapper of one."""

        def step(self, action):
            answer = super().step(action)
            self.steps = getattr(self, "steps", np.zeros(self.get_wrapper_attr("num_envs"))) + 1
            return answer

    envs = Counts(envpool.make_gymnasium("CartPole-v1", num_envs=3))
    assert envs.reset()[0].shape == (3, 4) and envs.step(np.zeros(3, int))[0].shape == (3, 4)
    assert envs.steps.tolist() == [1, 1, 1] and envs.unwrapped.is_vector_env
    envs.close()
    assert envs.unwrapped.closed
    many = gymnasium.wrappers.vector.RecordEpisodeStatistics(envpool.make_gymnasium("CartPole-v1", num_envs=3))
    many.reset()
    while "episode" not in (info := many.step(np.zeros(3, int))[4]):
        pass
    assert info["episode"]["l"].max() > 1


def test_a_first_step_is_a_reset_and_so_is_the_one_after_an_end():
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=4, max_episode_steps=3)
    steps = []
    for _ in range(9):
        obs, reward, terminated, truncated, info = envs.step(np.ones(4, int))
        steps.append((info["elapsed_step"][0], reward[0], truncated[0]))
    assert steps == [(0, 0, False), (1, 1, False), (2, 1, False), (3, 1, True)] * 2 + [(0, 0, False)]


def test_a_forced_reset_cancels_the_one_that_is_due():
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=2, max_episode_steps=2)
    envs.reset()
    envs.step(np.ones(2, int))
    assert envs.step(np.ones(2, int))[3].all()
    envs.reset(np.array([0]))
    *_, info = envs.step(np.ones(2, int))
    assert info["elapsed_step"].tolist() == [1, 0]


def test_actions_by_name():
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=3)
    envs.reset()
    ids = np.array([2, 0], np.int32)
    action = np.zeros(2, np.int32)
    obs, *_, info = envs.step({"action": action, "env_id": ids, "players.env_id": ids})
    assert info["env_id"].tolist() == [2, 0]
    envs.step({"action": action, "env_id": ids, "players": {"env_id": ids}})
    with pytest.raises(AssertionError, match="int64"):
        envs.step({"action": action.astype(np.int64), "env_id": ids})
    with pytest.raises(AssertionError, match="env_id"):
        envs.step({"action": action})
    assert envs.step({"action": action}, ids)[4]["env_id"].tolist() == [2, 0]
    assert envs.step({"action": action[:1], "env_id": ids}, np.array([1]))[4]["env_id"].tolist() == [1]


def test_asynchronously():
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=8, batch_size=3, num_threads=2)
    assert envs.is_async and envs.config["batch_size"] == 3
    envs.async_reset()
    for _ in range(50):
        obs, reward, terminated, truncated, info = envs.recv()
        assert obs.shape == (3, 4) and info["players"]["env_id"].shape == (3,)
        envs.send(np.ones(3, int), info["env_id"])


def test_a_reset_of_some_leaves_the_others_under_way():
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=6, batch_size=2)
    envs.async_reset()
    first = envs.recv()[4]["env_id"]
    _, info = envs.reset(first)
    seen = [info["env_id"], envs.recv()[4]["env_id"], envs.recv()[4]["env_id"]]
    assert sorted(np.concatenate(seen)) == [0, 1, 2, 3, 4, 5]
    assert envs.reset()[0].shape == (6, 4)


def test_dm_envs_side():
    pytest.importorskip("dm_env")
    envs = envpool.make_dm("FrozenLake-v1", num_envs=2, size=8)
    step = envs.reset()
    assert step.step_type.tolist() == [0, 0] and step.step_type.dtype == np.int32
    assert step.reward.tolist() == [0, 0] and step.discount.tolist() == [1, 1]
    assert step.observation.obs.dtype == np.int32 and step.observation.env_id.tolist() == [0, 1]
    assert step.observation.players.env_id.tolist() == [0, 1]
    assert envs.observation_spec().obs.num_values == 64 and envs.action_spec().num_values == 4
    kinds = set()
    for _ in range(300):
        step = envs.step(np.random.default_rng(0).integers(0, 4, 2))
        kinds |= set(zip(step.step_type.tolist(), step.discount.tolist(), strict=True))
    assert kinds <= {(0, 1.0), (1, 1.0), (2, 0.0)} and (2, 0.0) in kinds


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"num_envs": 0}, "num_envs"),
        ({"num_envs": 2, "batch_size": 3}, "batch_size"),
        ({"num_threads": -1}, "num_threads"),
        ({"thread_affinity_offset": -2}, "thread_affinity_offset"),
        ({"seed": 2**40}, "int32"),
        ({"num_envs": 3, "seed": [1, 2]}, "seed"),
        ({"max_num_players": 2}, "max_num_players"),
        ({"max_episode_steps": 0}, "max_episode_steps"),
    ],
)
def test_bad_options_are_assertions(arguments, says):
    with pytest.raises(AssertionError, match=says):
        envpool.make_gym("CartPole-v1", **arguments)


def test_other_refusals():
    with pytest.raises(AssertionError, match="Nope-v0"):
        envpool.make("Nope-v0", "gym")
    with pytest.raises(AssertionError, match="env_type"):
        envpool.make("CartPole-v1", "torch")
    with pytest.raises(ValueError, match="gym_reset_return_info"):
        envpool.make_gym("CartPole-v1", gym_reset_return_info=False)
    # EnvPool asserts.
    for error in (TypeError, AssertionError):
        for arguments, says in [({"nope": 1}, "nope"), ({"seed": 1.5}, "seed is 1.5"), ({"batch_size": None}, "batch_size is None")]:
            with pytest.raises(error, match=says):
                envpool.make_gym("CartPole-v1", **arguments)
    envs = envpool.make_gym("CartPole-v1", num_envs=2)
    with pytest.raises(ValueError, match="options has 'reset_maks'"):
        envs.reset(options={"reset_maks": np.array([True, False])})
    with pytest.raises(ValueError, match="both given"):
        envs.reset(np.array([0]), options={"reset_mask": np.array([True, False])})


def test_the_pendulums_version_is_said():
    assert envpool.make_gym("Pendulum-v1", version=1).config["version"] == 1
    assert envpool.make_spec("Pendulum-v1").config.version == 1
    with pytest.raises(AssertionError, match="version is 0"):
        envpool.make_gym("Pendulum-v1", version=0)
    with pytest.raises(TypeError, match="version"):
        envpool.make_gym("CartPole-v1", version=1)


def test_keys_of_tasks():
    envs = envpool.make_gym("Acrobot-v1", num_envs=3)
    obs, info = envs.reset()
    assert info["state"].dtype == np.float32 and info["state"].shape == (3, 2)
    assert np.allclose(np.cos(info["state"]), obs[:, 0:4:2], atol=1e-6)
    assert np.allclose(np.sin(info["state"]), obs[:, 1:4:2], atol=1e-6)
    info = envpool.make_gym("CliffWalking-v0", num_envs=3).reset()[1]
    assert info["prob"].dtype == np.float32 and info["prob"].tolist() == [1, 1, 1]
    assert envpool.make_dm("Acrobot-v1", num_envs=2).reset().observation.state.shape == (2, 2)
    assert envpool.make_spec("FrozenLake-v1", size=8).config.size == 8


def test_one_seed_is_that_of_the_first_and_the_next_have_the_next():
    many = envpool.make_gym("CartPole-v1", num_envs=3, seed=-1)
    for i, seed in enumerate([-1, 0, 1]):
        assert (many.reset()[0][i] == envpool.make_gym("CartPole-v1", seed=seed).reset()[0][0]).all()
        many = envpool.make_gym("CartPole-v1", num_envs=3, seed=-1)
    assert (envpool.make_gym("CartPole-v1", num_envs=2, seed=2**31 - 1).reset()[0][0] != many.reset()[0][1]).any()


def test_sequences_of_seeds_are_kept_as_env_seed():
    envs = envpool.make_gym("CartPole-v1", num_envs=2, seed=np.array([3, 4]))
    assert envs.config["seed"] == 0 and envs.config["env_seed"] == [3, 4]
    other = envpool.make_gym("CartPole-v1", num_envs=2, env_seed=[3, 4])
    assert other.config["seed"] == 42 and (other.reset()[0] == envs.reset()[0]).all()
    assert envpool.make_spec("CartPole-v1", reward_threshold=3.0).config.reward_threshold == 3.0


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_none_are_refused_without_a_warning():
    envs = envpool.make_gym("CartPole-v1", num_envs=3)
    envs.reset()
    for action, ids in [(np.full(3, np.nan), None), (np.full(3, 1e30), None), (np.zeros(3), np.full(3, np.nan))]:
        with pytest.raises(ValueError):
            envs.step(action, ids)
    with pytest.raises(TypeError, match="env_id has dtype complex128"):
        envs.step(np.zeros(3), np.zeros(3, complex))
    with pytest.raises(AssertionError, match="players"):
        envs.step({"action": np.zeros(3, np.int32), "env_id": np.arange(3, dtype=np.int32), "players": 1})
    with pytest.raises(TypeError, match="options"):
        envs.reset(options=[1])


def test_seeds_of_the_module():
    one = envpool.make_gym("CartPole-v1", num_envs=2, seed=[5, -7]).reset()[0]
    assert (one[0] == envpool.make_gym("CartPole-v1", seed=5).reset()[0][0]).all()
    assert (one[1] == envpool.make_gym("CartPole-v1", seed=-7).reset()[0][0]).all()
    same = [envpool.make_gym("CartPole-v1", num_envs=2).reset()[0] for _ in range(2)]
    assert (same[0] == same[1]).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task_id", TASKS)
def test_beside_envpool(task_id):
    theirs = pytest.importorskip("envpool")
    spec, ours = theirs.make_spec(task_id), envpool.make_spec(task_id)
    assert ours.observation_space == spec.observation_space and ours.action_space == spec.action_space
    assert ours.config.max_episode_steps == spec.config.max_episode_steps
    assert ours.reward_threshold == spec.reward_threshold
    assert set(spec.state_array_spec) == set(ours.state_array_spec)
    for name in ("state_array_spec", "action_array_spec"):
        assert set(getattr(spec, name)) == set(getattr(ours, name))
        for key, value in getattr(spec, name).items():
            said = getattr(ours, name)[key]
            assert said.shape == value.shape and said.dtype == value.dtype, key
    a, b = (module.make_gymnasium(task_id, num_envs=5) for module in (theirs, envpool))
    rng = np.random.default_rng(0)
    for one, other in [(a.reset(), b.reset())]:
        assert one[0].dtype == other[0].dtype and one[0].shape == other[0].shape
        assert one[1].keys() == other[1].keys()
    for _ in range(50):
        actions = np.stack([a.action_space.sample() for _ in range(5)])
        ids = rng.permutation(5)[: rng.integers(1, 6)].astype(np.int32)
        one, other = a.step(actions[ids], ids), b.step(actions[ids], ids)
        for x, y in zip(one[:4], other[:4], strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
        for key in ("env_id", "elapsed_step"):
            assert one[4][key].dtype == other[4][key].dtype and one[4][key].shape == other[4][key].shape
        assert one[4].keys() == other[4].keys()


@pytest.mark.parametrize("make", [envpool.make_gymnasium, envpool.make_dm])
def test_it_is_pickled_with_its_state(make):
    envs = make("CartPole-v1", num_envs=4, seed=3)
    envs.reset()
    for _ in range(20):
        envs.step(np.ones(4, np.int32))
    again = pickle.loads(pickle.dumps(envs))
    for _ in range(20):
        one, other = (pool.step(np.zeros(4, np.int32)) for pool in (envs, again))
        assert (one[1] == other[1]).all()
        seen = [step[3].obs if hasattr(step, "observation") else step[0] for step in (one, other)]
        assert (seen[0] == seen[1]).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64, np.int8, np.int64])
def test_numbers_of_every_type_and_layout_are_compared_with_the_bounds(dtype):
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=3)
    envs.reset()
    for _ in range(200):
        with pytest.raises(ValueError, match="shape"):
            envs.send(np.zeros((3, 3, 2), dtype)[::2])
    most = np.iinfo(dtype).max
    with pytest.raises(ValueError, match=f"holds? {most}"):
        envs.send(np.full(6, most, dtype)[::2])


def test_it_is_printed():
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=4)
    assert str(envs) == repr(envs) and str(envs).startswith("CartPoleGymnasiumEnvPool(num_envs=4, ")


def test_the_type_of_a_configuration_is_known():
    spec = envpool.make_spec("CartPole-v1", num_envs=3)
    assert isinstance(spec.config, spec.gen_config) and spec.gen_config(*spec.config) == spec.config

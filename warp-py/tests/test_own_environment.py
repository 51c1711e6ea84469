"""Training in environments that live in other libraries' arrays."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import warp_rl


class Corridor:
    """A walker who is to go right, in arrays of `xp`: written as users write theirs."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    single_observation_space = spaces.Box(0, 1, (2,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self, num_envs, xp, cells=8, limit=30):
        self.num_envs, self.xp, self.cells, self.limit = num_envs, xp, cells, limit

    def _obs(self):
        xp = self.xp
        return xp.stack([self.at / self.cells, self.steps / self.limit], -1)

    def reset(self, seed=None, options=None):
        xp = self.xp
        self.at, self.steps = xp.zeros(self.num_envs, dtype=xp.float32), xp.zeros(self.num_envs, dtype=xp.float32)
        return self._obs(), {}

    def step(self, actions):
        xp = self.xp
        assert type(actions) is type(self.at)
        self.at = xp.clip(self.at + 2 * actions - 1, 0, self.cells)
        self.steps = self.steps + 1
        terminated = self.at >= self.cells
        truncated = (self.steps >= self.limit) & ~terminated
        last, ended = self._obs(), terminated | truncated
        self.at = xp.where(ended, xp.zeros_like(self.at), self.at)
        self.steps = xp.where(ended, xp.zeros_like(self.steps), self.steps)
        return self._obs(), xp.where(terminated, 1.0, -0.01), terminated, truncated, {"final_obs": last}


KEYS = {"total_steps": 40_000, "num_steps": 32, "learning_rate": 0.003}


def library(name):
    return np if name == "numpy" else pytest.importorskip(name)


def test_flags_of_another_number_are_refused(tmp_path):
    class Short(Corridor):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            return obs, reward, terminated[:-1], truncated[:-1], info

    with pytest.raises(ValueError, match=r"terminated has shape \(3,\), but \(4,\) is needed"):
        warp_rl.train(env=Short(4, np), out=tmp_path / "run", **KEYS)


@pytest.mark.parametrize(
    ("which", "made", "error", "says"),
    [
        ("obs", lambda array: array.T, ValueError, r"obs has shape \(2, 4\), but \(4, 2\) is needed"),
        ("obs", lambda array: array.reshape(-1), ValueError, r"obs has shape \(8,\), but \(4, 2\) is needed"),
        ("obs", lambda array: array + 1j, TypeError, "obs has dtype complex.*, but real numbers are needed"),
        ("reward", lambda array: array.reshape(2, 2), ValueError, r"reward has shape \(2, 2\), but \(4,\) is needed"),
        ("reward", lambda array: array.sum(), ValueError, r"reward has shape \(\), but \(4,\) is needed"),
        ("reward", lambda array: array + 1j, TypeError, "reward has dtype complex128, but real numbers are needed"),
        ("terminated", lambda array: array.reshape(2, 2), ValueError, r"terminated has shape \(2, 2\)"),
        ("truncated", lambda array: array * 0.5, TypeError, "truncated has dtype float64, but flags are needed"),
        ("final_obs", lambda array: array[:, :1], ValueError, r"final_obs has shape \(4, 1\), but \(4, 2\) is needed"),
    ],
)
def test_arrays_of_another_shape_or_type_are_refused_by_name(tmp_path, which, made, error, says):
    class Wrong(Corridor):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            named = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, **info}
            named[which] = made(named[which])
            return (*list(named.values())[:4], {"final_obs": named["final_obs"]})

    with pytest.raises(error, match=says):
        warp_rl.train(env=Wrong(4, np), out=tmp_path / "run", **KEYS)


def test_columns_of_rewards_and_flags_are_taken(tmp_path):
    class Columns(Corridor):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            return obs, reward[:, None], terminated[:, None] * 1, truncated[:, None], info

    runs = [warp_rl.train(env=made(4, np), out=tmp_path / made.__name__, total_steps=500) for made in (Corridor, Columns)]
    assert runs[0].metrics()[-1]["episode_return"] == runs[1].metrics()[-1]["episode_return"]


def test_numbers_of_states_are_checked(tmp_path):
    class Numbers(Corridor):
        single_observation_space = spaces.Discrete(3)

        def _obs(self):
            return np.full(self.num_envs, -1)

    with pytest.raises(ValueError, match="obs holds numbers from -1 to -1, but there are 3 states"):
        warp_rl.train(env=Numbers(4, np), out=tmp_path / "run", **KEYS)


@pytest.mark.parametrize("answer", [None, (np.zeros((4, 1)), np.zeros(4), np.zeros(4, bool))])
def test_what_no_step_returns_is_refused(tmp_path, answer):
    env = Corridor(4, np)
    env.step = lambda actions: answer
    with pytest.raises(TypeError, match="env.step returns .*, but observations, rewards, two flags and an info are needed"):
        warp_rl.train(env=env, out=tmp_path / "run", **KEYS)


def test_an_info_may_be_none(tmp_path):
    class Silent(Corridor):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            return obs, reward, terminated | truncated, truncated & False, None

    warp_rl.train(env=Silent(4, np), out=tmp_path / "run", **KEYS)


def test_so_many_environments_are_needed_as_were_asked_for(tmp_path):
    with pytest.raises(ValueError, match="env creates 3 environments, but 8 were asked for"):
        warp_rl.train(env=lambda num_envs: Corridor(3, np), num_envs=8, out=tmp_path / "run", **KEYS)
    alone = gymnasium.make("warp_rl/CartPole-v1")
    with pytest.raises(TypeError, match="env is <TimeLimit.*, but environments that are stepped together are needed"):
        warp_rl.train(env=alone, out=tmp_path / "run", **KEYS)


def test_a_run_in_own_environments_asks_for_them(tmp_path):
    run = warp_rl.train(env=Corridor(4, np), out=tmp_path / "run", **KEYS)
    for call in (lambda: warp_rl.Policy.load(run.path), lambda: warp_rl.train(run.path + "/config.toml", out=tmp_path / "x")):
        with pytest.raises(ValueError, match="^env is None, but this run is in environments of your own: give them"):
            call()
    with pytest.raises(ValueError, match="continue it with the command warp train --resume"):
        warp_rl.train(env=Corridor(4, np), out=run.path, **KEYS)


@pytest.mark.parametrize("mode", ["NextStep", "next_step", AutoresetMode.NEXT_STEP])
def test_modes_may_be_named(tmp_path, mode):
    env = Corridor(4, np)
    env.metadata = {"autoreset_mode": mode}
    with pytest.raises(ValueError, match="autoreset_mode of env is 'next_step'"):
        warp_rl.train(env=env, out=tmp_path / "run", **KEYS)


@pytest.mark.parametrize("name", ["numpy", "torch", "jax.numpy", "cupy"])
def test_what_is_written_in_another_library_is_learned(tmp_path, name):
    run = warp_rl.train(env=Corridor(32, library(name)), out=tmp_path / "run", **KEYS)
    # The shortest way is 8 steps: 7 of -0.01 and 1 of 1.
    last = run.metrics()[-1]
    returns = [value for key, value in _flat(last) if key.endswith("return") or key.endswith("return.mean")]
    assert max(value for value in returns if isinstance(value, float)) > 0.8, last
    policy = warp_rl.Policy.load(run.path, env=Corridor(1, np))
    assert policy.act(np.array([[0.0, 0.0], [0.5, 0.1]])).tolist() == [1, 1]
    assert 'made_by = "Corridor"' in (tmp_path / "run" / "config.toml").read_text()


def test_tensors_on_a_gpu_are_trained_in(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    with torch.device("cuda"):
        run = warp_rl.train(env=Corridor(32, torch), out=tmp_path / "run", **KEYS)
    returns = [row["episode_return"]["mean"] for row in run.metrics() if row["episodes"]]
    assert returns[-1] > 0.8, returns


def on_gpu(name):
    """A library that has a GPU, and what makes its arrays there."""
    xp = pytest.importorskip(name)
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    if name == "jax.numpy" and (platform := sys.modules["jax"].default_backend()) != "gpu":
        pytest.skip(f"JAX computes on {platform}")
    return xp, torch.device("cuda") if name == "torch" else contextlib.nullcontext()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize("name", ["torch", "jax.numpy", "cupy"])
def test_on_a_gpu_nothing_leaves_it(tmp_path, name, mode):
    xp, place = on_gpu(name)

    class Watched(Corridor):
        metadata = {"autoreset_mode": mode}

        def step(self, actions):
            assert actions.dtype == (xp.int32 if name == "jax.numpy" else xp.int64)
            assert actions.__dlpack_device__()[0] == 2
            return super().step(actions) if mode is AutoresetMode.SAME_STEP else self._unended(actions)

        def _unended(self, actions):
            self.at = xp.clip(self.at + 2 * actions - 1, 0, self.cells)
            self.steps = self.steps + 1
            over = self.at >= self.cells
            return self._obs(), xp.where(over, 1.0, -0.01), over, (self.steps >= self.limit) & ~over, {}

        def reset(self, seed=None, options=None):
            if options is None:
                return super().reset(seed)
            begins = xp.asarray(options["reset_mask"])
            self.at = xp.where(begins, xp.zeros_like(self.at), self.at)
            self.steps = xp.where(begins, xp.zeros_like(self.steps), self.steps)
            return self._obs(), {}

    with place:
        run = warp_rl.train(env=Watched(32, xp), device="cuda", out=tmp_path / "run", **KEYS)
    returns = [row["episode_return"]["mean"] for row in run.metrics() if row["episodes"]]
    assert returns[-1] > 0.8, returns
    assert run.summary["device"] == "cuda"
    lengths = [row["episode_length"] for row in run.metrics() if row["episodes"]]
    assert 8 <= lengths[-1]["min"] <= lengths[-1]["mean"] < 12, lengths[-1]
    policy = warp_rl.Policy.load(run.path, env=Corridor(1, np))
    assert policy.act(np.array([[0.0, 0.0], [0.5, 0.1]])).tolist() == [1, 1]


def test_on_a_gpu_libraries_make_no_difference(tmp_path):
    said = []
    for i, name in enumerate(["torch", "cupy"]):
        xp, place = on_gpu(name)
        with place:
            run = warp_rl.train(
                env=Corridor(16, xp), device="cuda", out=tmp_path / str(i), total_steps=5_000, num_steps=16
            )
        said.append([(m["env_steps"], m["policy"], m["episode_return"]) for m in run.metrics()])
    assert said[0] == said[1]


def test_on_a_gpu_ours_can_be_trained_in_too(tmp_path):
    on_gpu("torch")
    given = {"num_envs": 64, "autoreset_mode": "same_step", "device": "cuda", "output": "torch", "seed": 0}
    run = warp_rl.train(
        env=warp_rl.make("CartPole-v1", **given), device="cuda", total_steps=200_000, out=tmp_path / "pole"
    )
    assert run.metrics()[-1]["episode_return"]["mean"] > 100
    warp_rl.train(env=warp_rl.make("FrozenLake-v1", **given), device="cuda", total_steps=5_000, out=tmp_path / "lake")
    warp_rl.train(env=warp_rl.make("Pendulum-v1", **given), device="cuda", total_steps=5_000, out=tmp_path / "swing")


def test_on_a_gpu_what_does_not_fit_is_a_sentence(tmp_path):
    torch, place = on_gpu("torch")
    with pytest.raises(ValueError, match="obs of <class 'numpy.ndarray'> is not on a GPU"):
        warp_rl.train(env=Corridor(4, np), device="cuda", out=tmp_path / "a")
    with place, pytest.raises(ValueError, match="replay memory.*device=cpu"):
        warp_rl.train(env=Corridor(4, torch), device="cuda", algorithm="dqn", out=tmp_path / "b")

    class Short(Corridor):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            return obs, reward, terminated[:-1], truncated, info

    class Forgets(Corridor):
        def step(self, actions):
            return (*super().step(actions)[:4], {})

    class Halves(Corridor):
        def step(self, actions):
            obs, *rest = super().step(actions)
            return obs.half(), *rest

    for env, says in [
        (Short(4, torch), r"terminated has shape \[3\]"),
        (Forgets(4, torch, cells=100), "lacks 'final_obs'"),
        (Halves(4, torch), "obs has dtype 2 of DLPack with 16 bits"),
    ]:
        with place, pytest.raises((ValueError, TypeError), match=says):
            warp_rl.train(env=env, device="cuda", total_steps=2000, num_steps=40, out=tmp_path / type(env).__name__)


def test_how_fast_training_on_a_gpu_is(tmp_path, capsys):
    torch, place = on_gpu("torch")
    said = []
    for device in ("cuda", "cpu"):
        for num_envs in (1024, 16_384):
            with place:
                keys = {"total_steps": 40 * 32 * num_envs, "num_steps": 32, "device": device, "hidden": [64, 64]}
                run = warp_rl.train(env=Corridor(num_envs, torch), out=tmp_path / f"{device}{num_envs}", **keys)
            said.append(f"{device}, {num_envs} environments: {run.summary['env_steps_per_second']:,.0f} steps a second")
    with capsys.disabled():
        print(*said, sep="\n")


def _flat(said, prefix=""):
    for key, value in said.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def test_libraries_make_no_difference(tmp_path):
    torch = pytest.importorskip("torch")
    runs = [
        warp_rl.train(env=Corridor(16, xp), out=tmp_path / str(i), total_steps=5_000, num_steps=16)
        for i, xp in enumerate([np, torch])
    ]
    one, other = [[(m["env_steps"], m.get("policy")) for m in run.metrics()] for run in runs]
    assert one == other


def test_ours_can_be_trained_in_too(tmp_path):
    def make(num_envs):
        return warp_rl.make("CartPole-v1", num_envs=num_envs, autoreset_mode="disabled", seed=0)

    run = warp_rl.train(
        env=make, num_envs=16, total_steps=20_000, eval_steps=10_000, eval_episodes=4, out=tmp_path / "own"
    )
    assert run.metrics()[-1]["env_steps"] >= 20_000
    lake = warp_rl.make("FrozenLake-v1", num_envs=16, autoreset_mode="same_step", output="dlpack")
    warp_rl.train(env=lake, total_steps=5_000, out=tmp_path / "lake")


def test_what_does_not_fit_is_a_sentence(tmp_path):
    made = Corridor(4, np)
    with pytest.raises(ValueError, match="num_envs is 8, but env has 4"):
        warp_rl.train(env=made, num_envs=8, out=tmp_path / "a")
    with pytest.raises(ValueError, match="give train a function that creates them"):
        warp_rl.train(env=made, eval_steps=100, total_steps=2000, num_steps=16, out=tmp_path / "b")
    with pytest.raises(ValueError, match="autoreset_mode of env is 'next_step'"):
        warp_rl.train(env=warp_rl.make("CartPole-v1"), out=tmp_path / "c")
    with pytest.raises(TypeError, match="config or env"):
        warp_rl.train(out=tmp_path / "d")

    class Forgets(Corridor):
        def step(self, actions):
            return (*super().step(actions)[:4], {})

    with pytest.raises(ValueError, match="lacks 'final_obs'"):
        warp_rl.train(env=Forgets(4, np, cells=100), total_steps=2000, num_steps=16, out=tmp_path / "e")

    class Breaks(Corridor):
        def step(self, actions):
            raise ZeroDivisionError("in the environment")

    with pytest.raises(ZeroDivisionError, match="in the environment"):
        warp_rl.train(env=Breaks(4, np), total_steps=2000, num_steps=16, out=tmp_path / "f")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("example", "library"), [("torch", "torch"), ("jax", "jax"), ("nvidia_warp", "warp")])
def test_examples_learn(example, library, device, tmp_path):
    pytest.importorskip(library)
    if device == "cuda" and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("needs a GPU")
    script = Path(__file__).parent.parent / "examples" / f"{example}_environment.py"
    command = [sys.executable, str(script), device]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # Of 64 walkers in every iteration some are late at first, and none at last.
    assert float(done.stdout.split()[-1]) > 0.9, done.stdout

"""Libraries train in our environments as they are. What is not installed is skipped."""

from __future__ import annotations

import sys
import types

import gymnasium
import numpy as np
import pytest

import warp_rl

torch = pytest.importorskip("torch")

N, STEPS = 32, 128


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)



class Agent(torch.nn.Module):
    """Two small networks, as in scripts of one file."""

    def __init__(self, width, choices):
        super().__init__()

        def network(out):
            hidden = torch.nn.Linear(width, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()
            return torch.nn.Sequential(*hidden, torch.nn.Linear(64, out))

        self.actor, self.critic = network(choices), network(1)

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1)


def ppo(step, obs, choices, iterations):
    """PPO in one function; `step` takes actions and gives observations, rewards and ends of episodes."""
    torch.manual_seed(0)
    agent = Agent(obs.shape[1], choices)
    optimiser = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    obs, over = torch.as_tensor(obs), torch.zeros(len(obs))
    for _ in range(iterations):
        seen = {key: [] for key in ("obs", "action", "log_prob", "value", "reward", "over")}
        for _ in range(STEPS):
            with torch.no_grad():
                choice, value = agent(obs)
                action = choice.sample()
            row = {"obs": obs, "action": action, "log_prob": choice.log_prob(action), "value": value, "over": over}
            new, reward, ended = step(action.numpy())
            obs, over = torch.as_tensor(new), torch.as_tensor(ended, dtype=torch.float32)
            for key, part in {**row, "reward": torch.as_tensor(reward, dtype=torch.float32)}.items():
                seen[key].append(part)
        all_ = {key: torch.stack(parts) for key, parts in seen.items()}
        with torch.no_grad():
            next_value = agent(obs)[1]
        advantages, last = torch.zeros_like(all_["reward"]), torch.zeros(len(obs))
        for t in reversed(range(STEPS)):
            goes_on = 1.0 - (all_["over"][t + 1] if t + 1 < STEPS else over)
            after = all_["value"][t + 1] if t + 1 < STEPS else next_value
            last = all_["reward"][t] + 0.99 * after * goes_on - all_["value"][t] + 0.95 * 0.99 * goes_on * last
            advantages[t] = last
        flat = {key: part.flatten(0, 1) for key, part in {**all_, "advantage": advantages}.items()}
        flat["return"] = flat["advantage"] + flat["value"]
        for _ in range(4):
            for rows in torch.randperm(N * STEPS).split(N * STEPS // 4):
                choice, value = agent(flat["obs"][rows])
                ratio = (choice.log_prob(flat["action"][rows]) - flat["log_prob"][rows]).exp()
                gain = flat["advantage"][rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                loss = -torch.min(gain * ratio, gain * ratio.clamp(0.8, 1.2)).mean()
                loss = loss + 0.5 * (value - flat["return"][rows]).square().mean() - 0.01 * choice.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimiser.step()


def test_a_script_of_one_file_learns_in_the_vector_environment():
    envs = warp_rl.make("CartPole-v1", num_envs=N, seed=1)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    obs, _ = envs.reset(seed=1)
    returns = []

    def step(actions):
        obs, reward, terminated, truncated, info = envs.step(actions)
        if "episode" in info:
            returns.extend(info["episode"]["r"][info["_episode"]].tolist())
        return obs, reward, terminated | truncated

    ppo(step, obs, envs.single_action_space.n, 12)
    assert np.mean(returns[:50]) < 40 and np.mean(returns[-50:]) > 110, (returns[:50], returns[-50:])


def test_a_script_of_one_file_learns_in_envpools_place():
    envs = warp_rl.envpool.make("CartPole-v1", env_type="gym", num_envs=N, seed=1)
    # As such scripts do.
    envs.num_envs = N
    envs.single_action_space = envs.action_space
    obs, _ = envs.reset()
    running, returns = np.zeros(N), []

    def step(actions):
        obs, reward, terminated, truncated, info = envs.step(actions)
        running[info["env_id"]] += reward
        ended = terminated | truncated
        returns.extend(running[ended].tolist())
        running[ended] = 0
        return obs, reward, ended

    ppo(step, obs, envs.single_action_space.n, 12)
    assert np.mean(returns[:50]) < 40 and np.mean(returns[-50:]) > 110


def test_make_vec():
    envs = gymnasium.make_vec("warp_rl/CartPole-v1", num_envs=N)
    assert isinstance(envs, warp_rl.VectorEnv) and envs.spec.id.endswith("CartPole-v1")
    envs = gymnasium.wrappers.vector.NormalizeReward(gymnasium.wrappers.vector.NormalizeObservation(envs))
    obs, _ = envs.reset(seed=0)
    for _ in range(50):
        obs, reward, *_ = envs.step(envs.action_space.sample())
    assert obs.shape == (N, 4) and np.isfinite(obs).all() and np.isfinite(reward).all()
    vectors = gymnasium.make_vec("warp_rl/FrozenLake-v1", num_envs=4, vectorization_mode="sync")
    assert vectors.reset(seed=3)[0].tolist() == [0, 0, 0, 0]


def test_tianshou_trains():
    pytest.importorskip("tianshou", minversion="2.0")
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.trainer import OnPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    torch.manual_seed(0)
    envs = warp_rl.envpool.make_gymnasium("CartPole-v1", num_envs=16, seed=1)
    tests = warp_rl.envpool.make_gymnasium("CartPole-v1", num_envs=8, seed=2)
    net = Net(state_shape=envs.observation_space.shape, hidden_sizes=[64, 64])
    actor = DiscreteActor(preprocess_net=net, action_shape=envs.action_space.n, softmax_output=False)
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=envs.action_space,
        action_scaling=False,
    )
    critic = DiscreteCritic(preprocess_net=Net(state_shape=envs.observation_space.shape, hidden_sizes=[64, 64]))
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3))
    collector = Collector(algorithm, envs, VectorReplayBuffer(16 * 256, 16))
    score = []
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            test_collector=Collector(algorithm, tests),
            max_epochs=4,
            epoch_num_steps=8_192,
            collection_step_num_env_steps=2_048,
            test_step_num_episodes=16,
            update_step_num_repetitions=6,
            batch_size=256,
            compute_score_fn=lambda stats: score.append(stats.returns_stat.mean) or score[-1],
            show_progress=False,
            verbose=False,
        )
    )
    assert score[0] < 60 and max(score) > 120, score


def test_rl_games_trains(tmp_path, monkeypatch):
    pytest.importorskip("rl_games")
    # It imports EnvPool by name: ours stands in its place.
    monkeypatch.setitem(sys.modules, "envpool", warp_rl.envpool)
    monkeypatch.chdir(tmp_path)
    from rl_games.algos_torch import a2c_discrete
    from rl_games.torch_runner import Runner

    rewards = []
    write = a2c_discrete.DiscreteA2CAgent.write_stats

    def note(self, *args, **kwargs):
        if self.game_rewards.current_size > 0:
            rewards.append(float(self.game_rewards.get_mean()[0]))
        return write(self, *args, **kwargs)

    monkeypatch.setattr(a2c_discrete.DiscreteA2CAgent, "write_stats", note)
    network = {
        "name": "actor_critic",
        "separate": True,
        "space": {"discrete": {}},
        "mlp": {"units": [64, 64], "activation": "elu", "initializer": {"name": "default"}},
    }
    config = {
        "name": "cartpole",
        "env_name": "envpool",
        "env_config": {"env_name": "CartPole-v1", "env_type": "gymnasium", "seed": 1},
        "reward_shaper": {"scale_value": 0.1},
        "normalize_advantage": True,
        "normalize_input": False,
        "normalize_value": False,
        "gamma": 0.99,
        "tau": 0.95,
        "learning_rate": 1e-3,
        "lr_schedule": None,
        "device": "cpu",
        "device_name": "cpu",
        "score_to_win": 10_000,
        "grad_norm": 0.5,
        "entropy_coef": 0.01,
        "truncate_grads": True,
        "ppo": True,
        "e_clip": 0.2,
        "clip_value": False,
        "num_actors": N,
        "horizon_length": 64,
        "minibatch_size": 512,
        "mini_epochs": 4,
        "critic_coef": 1,
        "max_epochs": 20,
        "save_frequency": 0,
        "save_best_after": 1000,
        "print_stats": False,
        "torch_compile": False,
    }
    runner = Runner()
    runner.load(
        {"params": {"seed": 1, "algo": {"name": "a2c_discrete"}, "model": {"name": "discrete_a2c"}, "network": network,
                    "config": config}}
    )
    runner.run({"train": True, "play": False, "checkpoint": None, "sigma": None})
    assert rewards and max(rewards) > 60, rewards


def test_acme_trains(monkeypatch):
    pytest.importorskip("dm_env")
    if "launchpad" not in sys.modules:
        # It starts programs on several machines, which nothing here asks for.
        monkeypatch.setitem(sys.modules, "launchpad", types.ModuleType("launchpad"))
    acme = pytest.importorskip("acme", exc_type=ImportError)
    from acme import core, specs

    env = warp_rl.make_dm("FrozenLake-v1", seed=0, is_slippery=False)
    spec = specs.make_environment_spec(env)
    assert spec.actions.num_values == 4 and spec.observations.num_values == 16

    class Table(core.Actor):
        """Learns the value of each action in each state."""

        def __init__(self):
            self.values, self.rng = np.zeros((16, 4)), np.random.default_rng(0)

        def select_action(self, observation):
            best = self.values[int(observation)]
            best = self.rng.choice(np.flatnonzero(best == best.max()))
            return np.int64(self.rng.integers(4) if self.rng.random() < 0.2 else best)

        def observe_first(self, timestep):
            self.state = int(timestep.observation)

        def observe(self, action, next_timestep):
            new = int(next_timestep.observation)
            goal = next_timestep.reward + 0.95 * next_timestep.discount * self.values[new].max()
            self.values[self.state, int(action)] += 0.5 * (goal - self.values[self.state, int(action)])
            self.state = new

        def update(self, wait=False):
            pass

    actor = Table()
    loop = acme.EnvironmentLoop(env, actor, logger=acme.utils.loggers.NoOpLogger())
    returns = [loop.run_episode()["episode_return"] for _ in range(800)]
    assert np.mean(returns[:100]) < 0.3 < 0.45 < np.mean(returns[-100:])

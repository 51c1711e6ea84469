"""Stable-Baselines3 with the keys of this repository's default configurations.

    pip install stable-baselines3==2.9.2
    python docs/peers/with_sb3.py jobs | OMP_NUM_THREADS=1 xargs -P 16 -L 1 python docs/peers/with_sb3.py train > sb3.jsonl
    python docs/peers/with_sb3.py intervals docs/results.md sb3.jsonl [ours.jsonl]
    python docs/peers/with_sb3.py evaluate runs/pendulum-sac-0
    OMP_NUM_THREADS=2 python docs/peers/with_sb3.py rate

`jobs` lists every configuration with seeds 0 to 4, the longest first. `train` trains one of them with one
thread and prints a line of JSON: the mean return of 100 greedy episodes of the last policy, and every
one's. `intervals` prints the table of docs/results.md: ours beside theirs, with 95 % intervals.
`evaluate` plays the greedy policy of a run of ours in Gymnasium, in the episodes that Stable-Baselines3's
policy of seed S modulo 5 was given, where S is the run's seed; `intervals` takes such lines, as ours.jsonl,
instead of what docs/results.md says of these configurations. `rate` measures the updates per second of
SAC on pendulum with two layers of 256 and batches of 256.
"""

import argparse
import json
import pathlib
import re
import statistics
import time
import tomllib

# Hidden layers of every configuration.
HIDDEN = [64, 64]
# Seeds of each.
SEEDS = range(5)


def linear(start):
    """A learning rate that falls to zero over the run."""
    return lambda left: start * left


def off_policy(**keys):
    """Keys that all configurations have."""
    return {"gamma": 0.99, "train_freq": 1, "buffer_size": 1_000_000, "batch_size": 256, **keys}


def pendulum(**keys):
    return {"env": "Pendulum-v1", "envs": 1, "steps": 20_000, "noise": None, "keys": off_policy(
        learning_rate=1e-3, tau=0.005, gradient_steps=1, **keys)}


def mountain_car(noise, **keys):
    return {"env": "MountainCarContinuous-v0", "envs": 4, "steps": 100_000, "noise": noise,
            "keys": off_policy(learning_starts=10_000, tau=0.005, **keys)}


def dqn(env, steps, **keys):
    """Eight replicas and four updates after each of their steps."""
    return {"env": env, "envs": 8, "steps": steps, "noise": None, "keys": {**off_policy(
        learning_rate=linear(1e-3), gradient_steps=4, max_grad_norm=10.0,
        exploration_fraction=0.2), **keys, "batch_size": 64}}


GAUSSIAN = {"std": 0.1}
RUNS = {
    ("pendulum", "sac"): pendulum(learning_starts=100),
    ("pendulum", "td3"): {**pendulum(learning_starts=1000), "noise": GAUSSIAN},
    ("pendulum", "ddpg"): {**pendulum(learning_starts=1000), "noise": GAUSSIAN},
    ("continuous_mountain_car", "sac"): mountain_car(
        {"std": 0.3, "damping": 0.05}, learning_rate=1e-3, gradient_steps=2),
    ("continuous_mountain_car", "td3"): mountain_car(
        {"std": 0.2, "damping": 0.02}, learning_rate=5e-4, gradient_steps=4),
    # The target follows once per step of the replicas there, which is four updates: four times 0.01.
    ("cartpole", "dqn"): dqn(
        "CartPole-v1", 100_000, buffer_size=100_000, learning_starts=1000, n_steps=10,
        tau=1 - (1 - 0.01) ** 4, target_update_interval=1, exploration_final_eps=0.04),
    # Every 500 updates, which is every 1,000 steps.
    ("acrobot", "dqn"): dqn(
        "Acrobot-v1", 200_000, learning_starts=2000, target_update_interval=1000,
        exploration_final_eps=0.05),
}
# By how long a run takes.
LONGEST_FIRST = [
    ("continuous_mountain_car", "td3"),
    ("continuous_mountain_car", "sac"),
    ("acrobot", "dqn"),
    ("pendulum", "sac"),
    ("cartpole", "dqn"),
    ("pendulum", "td3"),
    ("pendulum", "ddpg"),
]


def action_noise(keys, width):
    """Gaussian noise, or with a damping Ornstein and Uhlenbeck's."""
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

    if keys is None:
        return None
    mean, std = np.zeros(width), np.full(width, keys["std"])
    if "damping" not in keys:
        return NormalActionNoise(mean, std)
    return OrnsteinUhlenbeckActionNoise(mean, std, theta=keys["damping"], dt=1.0)


def make(run, algorithm, seed, hidden, threads, **policy):
    """A fresh learner."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(threads)
    env = make_vec_env(run["env"], n_envs=run["envs"], seed=seed)
    keys = dict(run["keys"])
    if algorithm != "dqn":
        keys["action_noise"] = action_noise(run["noise"], env.action_space.shape[0])
    policy = {"net_arch": hidden, "activation_fn": torch.nn.ReLU, **policy}
    learner = getattr(stable_baselines3, algorithm.upper())
    return learner("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs=policy, **keys)


def jobs(_):
    """Arguments of `train`, line by line."""
    for name, algorithm in LONGEST_FIRST:
        for seed in SEEDS:
            print(name, algorithm, seed)


def train(options):
    """One run."""
    run = RUNS[options.environment, options.algorithm]
    # The same steps of Adam in fewer calls.
    fused = {"optimizer_kwargs": {"fused": True}}
    model = make(run, options.algorithm, options.seed, HIDDEN, threads=1, **fused)
    begin = time.perf_counter()
    model.learn(int(run["steps"] * options.share))
    seconds = time.perf_counter() - begin
    result = {"steps": model.num_timesteps, "updates": model._n_updates, "seconds": round(seconds, 1)}
    show(options.environment, options.algorithm, options.seed, {**result, **play(model, run, options.seed)})


def play(model, run, seed):
    """100 greedy episodes in 20 environments side by side. Their starts are drawn from the seeds of the
    environments, 10,000 + seed and the 19 after it: runs of neighbouring seeds share most of them."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    env = make_vec_env(run["env"], n_envs=20, seed=10_000 + seed)
    returns, _ = evaluate_policy(
        model, env, n_eval_episodes=100, deterministic=True, return_episode_rewards=True)
    return {"mean": round(statistics.fmean(returns), 3), "returns": [round(x, 2) for x in returns]}


def show(environment, algorithm, seed, result):
    """A line of JSON."""
    line = {"environment": environment, "algorithm": algorithm, "seed": seed, **result}
    print(json.dumps(line), flush=True)


class Policy:
    """The greedy policy of a run's last checkpoint: an actor's means, or the choice of the largest value."""

    def __init__(self, folder, space):
        import numpy as np

        newest = sorted(pathlib.Path(folder, "checkpoints").iterdir())[-1]
        data = (newest / "weights.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        tensors = {}
        for name, entry in json.loads(data[8:8 + size]).items():
            if entry.get("dtype") == "F32":
                begin, end = (8 + size + at for at in entry["data_offsets"])
                tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
        self.space = space
        own = [name for name in tensors if re.search(r"\.(actor|q)\..*\.weight$", name)]
        own.sort(key=lambda name: ("head" in name, name))
        self.layers = [(tensors[name], tensors[name[:-6] + "bias"]) for name in own]

    def predict(self, obs, state=None, **_):
        import numpy as np

        x = obs
        for index, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            x = np.maximum(x, 0) if index + 1 < len(self.layers) else x
        if not hasattr(self.space, "low"):
            return x.argmax(axis=1), state
        low, high = self.space.low, self.space.high
        return low + (high - low) * 0.5 * (np.tanh(x[:, :len(low)]) + 1), state


def evaluate(options):
    """A run of ours in their episodes."""
    import gymnasium

    keys = tomllib.loads(pathlib.Path(options.run_folder, "config.toml").read_text(encoding="utf-8"))
    name, algorithm, seed = keys["env_id"], keys["algorithm"], keys["seed"]
    run = RUNS[name, algorithm]
    policy = Policy(options.run_folder, gymnasium.make(run["env"]).action_space)
    show(name, algorithm, seed, play(policy, run, seed % len(SEEDS)))


def rate(options):
    """Updates per second of SAC, steps of the environment between them."""
    model = make(RUNS["pendulum", "sac"], "sac", 0, [256, 256], options.threads)
    begin = time.perf_counter()
    model.learn(options.steps)
    seconds = time.perf_counter() - begin
    print(json.dumps({
        "updates": model._n_updates, "seconds": round(seconds, 3),
        "updates_per_second": round(model._n_updates / seconds, 1), "threads": options.threads,
    }))


# 97.5 % quantiles of Student's t, by the number of runs less one.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(means):
    """The mean of runs and the bounds of its 95 % interval."""
    middle = statistics.fmean(means)
    reach = STUDENT[len(means) - 1] * statistics.stdev(means) / len(means) ** 0.5
    return middle, middle - reach, middle + reach


def means_of(path, run):
    """The means that a file's lines say of a configuration, by seed."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    found = [line for line in map(json.loads, lines) if (line["environment"], line["algorithm"]) == run]
    return [line["mean"] for line in sorted(found, key=lambda line: line["seed"])]


def intervals(options):
    """The table that compares."""
    text = pathlib.Path(options.results).read_text(encoding="utf-8")
    for run in RUNS:
        # The table of the CPU stands before that of the GPU.
        row = re.search(r"^\| %s \| %s \| >= \S+ \| ([^|]+) \|" % run, text, re.MULTILINE)
        ours = means_of(options.ours, run) if options.ours else []
        ours = ours or [float(x) for x in row[1].split(",")]
        theirs = means_of(options.runs, run)
        a, b = interval(ours), interval(theirs)
        verdict = "above" if a[1] > b[2] else "below" if a[2] < b[1] else "overlap"
        seeds = ", ".join(f"{x:.1f}" for x in theirs)
        cells = [f"{x[0]:.1f} ({x[1]:.1f} to {x[2]:.1f})" for x in (a, b)]
        print("| %s | %s |" % run, f"{cells[0]} | {cells[1]} | {seeds} | {verdict} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    commands.add_parser("jobs").set_defaults(run=jobs)
    command = commands.add_parser("train")
    command.add_argument("environment")
    command.add_argument("algorithm")
    command.add_argument("seed", type=int)
    command.add_argument("--share", type=float, default=1.0, help="of the steps, to try it out")
    command.set_defaults(run=train)
    command = commands.add_parser("evaluate")
    command.add_argument("run_folder")
    command.set_defaults(run=evaluate)
    command = commands.add_parser("rate")
    command.add_argument("--steps", type=int, default=2100)
    command.add_argument("--threads", type=int, default=2)
    command.set_defaults(run=rate)
    command = commands.add_parser("intervals")
    command.add_argument("results")
    command.add_argument("runs")
    command.add_argument("ours", nargs="?")
    command.set_defaults(run=intervals)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

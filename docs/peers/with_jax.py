"""PPO on CartPole in compiled JAX, over one GPU and over all: the peer of `warp bench cartpole --train --gpus N`.

    python docs/peers/with_jax.py --replicas 2048 16384 65536

Environment, rollout, advantages and update are one program without the host, as in PureJaxRL: 128 steps, 4 epochs of
4 minibatches, separate networks of 2 x 64 with tanh, Adam. Each device has its own replicas and minibatches, and
gradients are averaged over devices. Prints a JSON object with a row for each number of replicas per GPU and each number
of GPUs: the median rate of three timed stretches, without compilation.
"""

import argparse
import json
import statistics
import sys
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, EPOCHS, MINIBATCHES = 128, 4, 4
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, MAX_NORM, RATE = 0.99, 0.95, 0.2, 0.01, 0.5, 0.5, 2.5e-4


class Batch(NamedTuple):
    """A rollout, [steps, replicas, ...], or a minibatch of it."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


def cartpole_reset(key, replicas):
    return jax.random.uniform(key, (replicas, 4), minval=-0.05, maxval=0.05), jnp.zeros(replicas, jnp.int32)


def cartpole_step(key, state, action):
    obs, steps = state
    x, x_dot, theta, theta_dot = obs.T
    force = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    push = (force + 0.05 * theta_dot**2 * sin) / 1.1
    theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    x_acc = push - 0.05 * theta_acc * cos / 1.1
    obs = jnp.stack([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc], 1)
    steps = steps + 1
    done = (jnp.abs(obs[:, 0]) > 2.4) | (jnp.abs(obs[:, 2]) > 0.2095) | (steps >= 500)
    fresh, zero = cartpole_reset(key, done.shape[0])
    return (jnp.where(done[:, None], fresh, obs), jnp.where(done, zero, steps)), jnp.ones(done.shape), done


def network(key, outputs, scale):
    widths = [4, 64, 64, outputs]
    keys = jax.random.split(key, 3)
    scales = [2**0.5, 2**0.5, scale]
    init = [jax.nn.initializers.orthogonal(s)(k, (i, o)) for k, s, i, o in zip(keys, scales, widths, widths[1:])]
    return [(w, jnp.zeros(w.shape[1])) for w in init]


def apply(layers, obs):
    for w, b in layers[:-1]:
        obs = jnp.tanh(obs @ w + b)
    w, b = layers[-1]
    return obs @ w + b


def rollout(params, state, key):
    def step(carry, key):
        state, act_key = carry, jax.random.split(key)
        logits = jax.nn.log_softmax(apply(params["actor"], state[0]))
        action = jax.random.categorical(act_key[0], logits)
        log_prob = jnp.take_along_axis(logits, action[:, None], 1)[:, 0]
        value = apply(params["critic"], state[0])[:, 0]
        after, reward, done = cartpole_step(act_key[1], state, action)
        return after, Batch(state[0], action, log_prob, value, reward, done)

    state, batch = jax.lax.scan(step, state, jax.random.split(key, STEPS))
    return state, batch, apply(params["critic"], state[0])[:, 0]


def advantages(batch, last):
    def back(carry, now):
        advantage, next_value = carry
        going_on = 1.0 - now.done
        delta = now.reward + GAMMA * next_value * going_on - now.value
        advantage = delta + GAMMA * LAMBDA * going_on * advantage
        return (advantage, now.value), advantage

    return jax.lax.scan(back, (jnp.zeros_like(last), last), batch, reverse=True, unroll=16)[1]


def loss(params, batch, advantage):
    logits = jax.nn.log_softmax(apply(params["actor"], batch.obs))
    ratio = jnp.exp(jnp.take_along_axis(logits, batch.action[:, None], 1)[:, 0] - batch.log_prob)
    normal = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy = -jnp.minimum(ratio * normal, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * normal).mean()
    entropy = -(jnp.exp(logits) * logits).sum(1).mean()
    value = 0.5 * ((apply(params["critic"], batch.obs)[:, 0] - batch.value - advantage) ** 2).mean()
    return policy + VALUE * value - ENTROPY * entropy


def adam(params, moments, gradient, count):
    norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, MAX_NORM / (norm + 1e-6)), gradient)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradient)
    c1, c2 = 1 - 0.9**count, 1 - 0.999**count
    params = jax.tree.map(lambda p, m, v: p - RATE * (m / c1) / (jnp.sqrt(v / c2) + 1e-5), params, first, second)
    return params, (first, second)


def iteration(carry, _):
    params, moments, count, state, key = carry
    key, act_key, *epoch_keys = jax.random.split(key, 2 + EPOCHS)
    state, batch, last = rollout(params, state, act_key)
    data = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (batch, advantages(batch, last)))

    def minibatch(carry, chosen):
        params, moments, count = carry
        gradient = jax.lax.pmean(jax.grad(loss)(params, *chosen), "gpu")
        params, moments = adam(params, moments, gradient, count + 1.0)
        return (params, moments, count + 1.0), None

    def epoch(carry, key):
        order = jax.random.permutation(key, data[1].shape[0]).reshape(MINIBATCHES, -1)
        return jax.lax.scan(lambda c, o: minibatch(c, jax.tree.map(lambda x: x[o], data)), carry, order)

    (params, moments, count), _ = jax.lax.scan(epoch, (params, moments, count), jnp.stack(epoch_keys))
    return (params, moments, count, state, key), batch.done.mean()


def rate(gpus, replicas, seconds):
    """Environment steps per second over so many GPUs with so many replicas each, and the mean episode length."""
    mesh = Mesh(jax.devices()[:gpus], ("gpu",))
    everywhere, own = PartitionSpec(), PartitionSpec("gpu")
    actor, critic, env, rng = jax.random.split(jax.random.key(0), 4)
    params = {"actor": network(actor, 2, 0.01), "critic": network(critic, 1, 1.0)}
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    state = cartpole_reset(env, gpus * replicas)
    carry = (params, moments, jnp.zeros(()), state, jax.random.split(rng, gpus))
    specs = (everywhere, everywhere, everywhere, own, own)

    @partial(jax.jit, donate_argnums=0)
    def run(carry, iterations):
        def local(carry, iterations):
            begin = ((*carry[:4], carry[4][0]), jnp.zeros(()))
            carry, ended = jax.lax.fori_loop(0, iterations, lambda _, now: iteration(now[0], None), begin)
            return (*carry[:4], carry[4][None]), jax.lax.pmean(ended, "gpu")

        return jax.shard_map(local, mesh=mesh, in_specs=(specs, everywhere), out_specs=(specs, everywhere),
                             check_vma=False)(carry, iterations)

    def timed(carry, iterations):
        begin = time.perf_counter()
        carry, ended = run(carry, iterations)
        jax.block_until_ready(carry)
        return carry, time.perf_counter() - begin, 1.0 / float(ended)

    # As `run` gives it, so that it is compiled once.
    carry = jax.device_put(carry, jax.tree.map(partial(NamedSharding, mesh), specs, is_leaf=lambda x: x in (everywhere, own)))
    carry, _, _ = timed(carry, 2)
    carry, spent, _ = timed(carry, 2)
    iterations = max(2, int(2 * seconds / spent))
    carry, _, _ = timed(carry, iterations)
    rates = []
    for _ in range(3):
        carry, spent, length = timed(carry, iterations)
        rates.append(iterations * STEPS * gpus * replicas / spent)
    return statistics.median(rates), length


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[2048, 16384, 65536], help="of each GPU")
    parser.add_argument("--gpus", type=int, nargs="+", help="numbers of GPUs (1 and all)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each timed stretch")
    asked = parser.parse_args()
    rows = []
    for replicas in asked.replicas:
        one = None
        for gpus in asked.gpus or sorted({1, jax.device_count()}):
            steps, length = rate(gpus, replicas, asked.seconds)
            one = one or steps / gpus
            rows.append({"gpus": gpus, "replicas_per_gpu": replicas, "steps_per_second": steps,
                         "efficiency": steps / gpus / one, "mean_episode_length": length})
            print(rows[-1], file=sys.stderr, flush=True)
    print(json.dumps({"jax": jax.__version__, "device": jax.devices()[0].device_kind, "rows": rows}))


if __name__ == "__main__":
    main()

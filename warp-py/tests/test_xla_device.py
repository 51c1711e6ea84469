"""Environments on a GPU in functions that JAX compiles for it, beside twins that are stepped by hand.

Everything here is skipped, with the reason, where there is no GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
from conftest import actions_of

import warp_rl

jax = pytest.importorskip("jax")
jnp = jax.numpy

try:
    warp_rl.make("CartPole-v1", device="cuda").close()
except (ValueError, RuntimeError) as error:
    pytest.skip(str(error), allow_module_level=True)
if jax.default_backend() != "gpu":
    pytest.skip("JAX has no GPU", allow_module_level=True)

#: Rows of so many are aligned, whatever their type.
N = 512


def pair(task, **kwargs):
    return (warp_rl.make(task, num_envs=N, seed=5, device=device, **kwargs) for device in ("cpu", "cuda"))


def same(plain, compiled):
    """Five results of a step, but for the masks and what is known on the processor alone."""
    for here, there in zip(plain[:4], compiled[:4], strict=True):
        # JAX has no int64 unless it is told so.
        here = here.astype(np.int32) if here.dtype == np.int64 else here
        assert here.dtype == there.dtype and here.shape == there.shape and (here == np.asarray(there)).all()
    assert {"env_id", "elapsed_step"} <= set(compiled[4])
    for key, there in compiled[4].items():
        assert (plain[4][key] == np.asarray(there)).all(), key


@pytest.mark.parametrize("task", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "Catch-v0"])
def test_a_compiled_step_is_a_step(task):
    plain, compiled = pair(task, max_episode_steps=9)
    handle, recv, send, step = compiled.xla()
    plain.reset(seed=1), compiled.reset(seed=1)
    move, halves = jax.jit(step), jax.jit(lambda handle, actions: recv(send(handle, actions)))
    for count in range(40):
        actions = actions_of(plain, count)
        handle, answer = (move if count % 2 else halves)(handle, actions)
        same(plain.step(actions), answer)


def policy(obs):
    return (obs[:, 2] > 0).astype(jnp.int32)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("length", [100, 1000])
@pytest.mark.parametrize("halves", [False, True])
def test_a_loop_is_one_program(nested, length, halves):
    twin, envs = pair("CartPole-v1")
    handle, recv, send, step = envs.xla()
    moved = (lambda handle, actions: recv(send(handle, actions))) if halves else step

    def one(carried, _):
        handle, obs = carried
        handle, (obs, reward, terminated, _, info) = moved(handle, policy(obs))
        return (handle, obs), (obs, reward, terminated, info["elapsed_step"])

    def loop(carried):
        if not nested:
            return jax.lax.scan(one, carried, None, length=length)
        inner = lambda carried, _: jax.lax.scan(one, carried, None, length=10)  # noqa: E731
        carried, seen = jax.lax.scan(inner, carried, None, length=length // 10)
        return carried, jax.tree.map(lambda array: array.reshape(length, *array.shape[2:]), seen)

    envs.async_reset()
    handle, (obs, *_) = jax.jit(recv)(handle)
    _, (seen, rewards, ended, elapsed) = jax.jit(loop)((handle, obs))
    seen, rewards, ended, elapsed = (np.asarray(array) for array in (seen, rewards, ended, elapsed))
    obs, _ = twin.reset()
    for at in range(length):
        obs, reward, terminated, _, info = twin.step((obs[:, 2] > 0).astype(np.int32))
        assert (obs == seen[at]).all() and (reward == rewards[at]).all() and (terminated == ended[at]).all(), at
        assert (info["elapsed_step"] == elapsed[at]).all()
    assert ended.any()


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_rows_of_a_loop_are_arguments_and_results(task, halves):
    twin, envs = pair(task)
    handle, recv, send, step = envs.xla()
    moved = (lambda handle, actions: recv(send(handle, actions))) if halves else step
    envs.reset(), twin.reset()
    actions = np.stack([actions_of(twin, at) for at in range(60)])
    handle, seen = jax.jit(lambda handle, actions: jax.lax.scan(moved, handle, actions))(handle, actions)
    for at in range(60):
        same(twin.step(actions[at]), jax.tree.map(lambda array: array[at], seen))


def test_with_other_work_of_the_program_around_it():
    # Products of matrices that take longer than a step lie before and behind it on XLA's stream.
    twin, envs = pair("CartPole-v1")
    handle, recv, _, step = envs.xla()
    weights = jax.random.normal(jax.random.key(0), (2048, 2048)) / 45

    def one(carried, _):
        handle, obs, hidden = carried
        hidden = jnp.tanh(weights @ hidden)
        actions = (obs[:, 2] + 1e-30 * hidden[:N, 0] > 0).astype(jnp.int32)
        handle, (obs, *_) = step(handle, actions)
        return (handle, obs, hidden), (obs, actions)

    envs.async_reset()
    handle, (obs, *_) = recv(handle)
    run = jax.jit(lambda carried: jax.lax.scan(one, carried, None, length=100))
    _, (seen, actions) = run((handle, obs, jnp.ones((2048, 64))))
    twin.reset()
    for at in range(100):
        assert (twin.step(np.asarray(actions[at]))[0] == np.asarray(seen[at])).all(), at


def test_what_is_wrong_is_an_error_of_the_program():
    envs = warp_rl.make("CartPole-v1", num_envs=4, device="cuda")
    handle, recv, send, step = envs.xla()
    with pytest.raises(jax.errors.JaxRuntimeError, match="no environment is in flight"):
        jax.block_until_ready(jax.jit(recv)(handle))
    with pytest.raises(ValueError, match=r"actions has shape \(3,\)"):
        jax.jit(step)(handle, np.zeros(3, np.int32))
    with pytest.raises(TypeError, match="integers are needed"):
        jax.jit(step)(handle, np.zeros(4, np.float32))
    envs.reset(seed=1)
    # Whichever call is made when the GPU has come to it.
    with pytest.raises(jax.errors.JaxRuntimeError, match="actions hold 7 for environment 0"):
        jax.block_until_ready(jax.jit(step)(handle, np.full(4, 7)))
        jax.block_until_ready(jax.jit(step)(handle, np.zeros(4, np.int32)))
    jax.block_until_ready(jax.jit(step)(handle, np.zeros(4, np.int32)))
    handle = jax.block_until_ready(jax.jit(send)(handle, np.zeros(4, np.int32)))
    with pytest.raises(RuntimeError, match="have not been received"):
        envs.step(np.zeros(4, np.int32))
    assert len(envs.recv()[0]) == 4
    envs.close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="closed"):
        jax.block_until_ready(jax.jit(step)(handle, np.zeros(4, np.int32)))

"""Environments in functions that JAX compiles."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import warp_rl
from warp_rl import envpool

jax = pytest.importorskip("jax")
jnp = jax.numpy


def choices(step, n, k=2):
    return (np.arange(n) * 7 + step * 5) % k


@pytest.mark.parametrize("task", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "FrozenLake-v1", "CliffWalking-v0", "Catch-v0"])
@pytest.mark.parametrize("make", [envpool.make_gymnasium, envpool.make_dm])
def test_a_compiled_step_is_a_step(task, make):
    if make is envpool.make_dm:
        pytest.importorskip("dm_env")
    plain, compiled = (make(task, num_envs=5, seed=3, max_episode_steps=9) for _ in range(2))
    kind = compiled.spec.action_space
    handle, recv, send, step = compiled.xla()
    plain.async_reset(), compiled.async_reset()
    handle, answer = jax.jit(recv)(handle)
    assert_same(plain.recv(), answer)
    move = jax.jit(step)
    for count in range(40):
        action = choices(count, 5) if kind.shape == () else np.full((5, 1), np.sin(count), np.float32)
        handle, answer = move(handle, action)
        assert_same(plain.step(action), answer)


def test_a_step_of_too_few_sends_nothing():
    envs = warp_rl.envpool.make_gymnasium("CartPole-v1", num_envs=4)
    handle, _, _, step = envs.xla()
    with pytest.raises(Exception, match="3 environments were sent, but a program receives 4"):
        step(handle, np.zeros(3, np.int32), np.arange(3, dtype=np.int32))
    assert envs._pool.under_way == 0 and (envs._pool.get_state()["replica.event"] == 0).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e30])
def test_numbers_that_int32_does_not_have_are_refused(wrong):
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=2)
    envs.reset()
    handle, _, _, step = envs.xla()
    with pytest.raises(Exception, match="actions hold -1"):
        jax.block_until_ready(jax.jit(step)(handle, jnp.array([0.0, wrong])))


def assert_same(plain, compiled):
    assert type(plain) is type(compiled)
    here, there = jax.tree.flatten(plain), jax.tree.flatten(compiled)
    assert here[1] == there[1]
    for one, other in zip(here[0], there[0], strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.allclose(one, other, rtol=0, atol=1e-6)


def policy(obs):
    return (obs[:, 2] > 0).astype(jnp.int32)


def in_one_loop(step, length):
    def one(carried, _):
        handle, obs = carried
        handle, (obs, reward, terminated, truncated, info) = step(handle, policy(obs))
        return (handle, obs), (obs, reward, terminated, info["elapsed_step"])

    return lambda carried: jax.lax.scan(one, carried, None, length=length)


def in_two_loops(step, length):
    inner = in_one_loop(step, 10)

    def rollout(carried):
        carried, seen = jax.lax.scan(lambda carried, _: inner(carried), carried, None, length=length // 10)
        return carried, jax.tree.map(lambda array: array.reshape(length, *array.shape[2:]), seen)

    return rollout


@pytest.mark.parametrize("loop", [in_one_loop, in_two_loops])
@pytest.mark.parametrize("length", [100, 1000])
@pytest.mark.parametrize("halves", [False, True])
def test_a_loop_is_one_program(loop, length, halves):
    envs = envpool.make_gym("CartPole-v1", num_envs=16, seed=0)
    handle, recv, send, step = envs.xla()
    moved = (lambda handle, action: recv(send(handle, action))) if halves else step
    envs.async_reset()
    handle, (obs, *_) = recv(handle)
    (handle, _), (seen, rewards, ended, elapsed) = jax.jit(loop(moved, length))((handle, obs))
    twin = envpool.make_gym("CartPole-v1", num_envs=16, seed=0)
    obs, _ = twin.reset()
    seen, rewards, ended, elapsed = (np.asarray(array) for array in (seen, rewards, ended, elapsed))
    for at in range(length):
        obs, reward, terminated, _, info = twin.step((obs[:, 2] > 0).astype(np.int32))
        assert (obs == seen[at]).all() and (reward == rewards[at]).all() and (terminated == ended[at]).all()
        assert (info["elapsed_step"] == elapsed[at]).all()
    assert ended.any()


def test_what_one_program_is_refused_the_next_is_not():
    refused, other = (envpool.make_gym("CartPole-v1", num_envs=4, seed=0) for _ in range(2))
    handle, recv, _, step = refused.xla()
    with pytest.raises(jax.errors.JaxRuntimeError, match="no environment is in flight"):
        jax.block_until_ready(jax.jit(recv)(handle))
    for envs in (other, refused):
        envs.async_reset()
        handle, recv, _, step = envs.xla()
        handle, _ = jax.jit(recv)(handle)
        _, (obs, *_) = jax.jit(step)(handle, np.ones(4, np.int32))
        twin = envpool.make_gym("CartPole-v1", num_envs=4, seed=0)
        twin.reset()
        assert (obs == twin.step(np.ones(4))[0]).all()


def test_asynchronously_whoever_is_finished_goes_on():
    envs = envpool.make_gym("CartPole-v1", num_envs=12, batch_size=4, num_threads=2, seed=0)
    handle, recv, send, _ = envs.xla()

    @jax.jit
    def turn(handle):
        handle, (obs, reward, terminated, truncated, info) = recv(handle)
        return send(handle, (obs[:, 2] > 0).astype(jnp.int32), info["env_id"]), info["env_id"], info["elapsed_step"]

    envs.async_reset()
    moved = np.zeros(12, int)
    for _ in range(300):
        handle, ids, elapsed = turn(handle)
        assert len(set(ids.tolist())) == 4
        moved[np.asarray(ids)] += 1
    assert moved.min() > 20, "nobody is forgotten"


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("n", [16, 64, 128])
def test_rows_of_a_loop_are_arguments_and_results(n, halves):
    # Without an operation between, such calls have been wrong on a GPU.
    envs, twin = (envpool.make_gym("CartPole-v1", num_envs=n, seed=3) for _ in range(2))
    handle, recv, send, step = envs.xla()
    moved = (lambda handle, action: recv(send(handle, action))) if halves else step
    envs.reset(), twin.reset()
    actions = np.stack([choices(at, n) for at in range(60)]).astype(np.int32)
    handle, seen = jax.jit(lambda handle, actions: jax.lax.scan(moved, handle, actions))(handle, actions)
    for at in range(60):
        assert_same(twin.step(actions[at]), jax.tree.map(lambda array: array[at], seen))


def with_fori_loop(step, length):
    """The last observations, and the sum of all rewards and ends of episodes."""

    def one(_, carried):
        handle, obs, total = carried
        handle, (obs, reward, terminated, *_) = step(handle, policy(obs))
        return handle, obs, total + reward + 1000 * terminated

    return lambda handle, obs: jax.lax.fori_loop(0, length, one, (handle, obs, jnp.zeros(len(obs))))


def by_hand(envs, obs, length):
    total = np.zeros(len(obs), np.float32)
    for _ in range(length):
        obs, reward, terminated, *_ = envs.step((np.asarray(obs)[:, 2] > 0).astype(np.int32))
        total += reward + 1000 * terminated
    return obs, total


def test_another_loop_is_one_program_too():
    envs, twin = (envpool.make_gym("CartPole-v1", num_envs=16, seed=4) for _ in range(2))
    handle, recv, _, step = envs.xla()
    envs.async_reset()
    handle, (obs, *_) = recv(handle)
    handle, obs, total = jax.jit(with_fori_loop(step, 300))(handle, obs)
    wanted, of_all = by_hand(twin, twin.reset()[0], 300)
    assert (obs == wanted).all() and (total == of_all).all() and total.max() > 1000
    # And the next program goes on where this one has ended.
    handle, obs, total = jax.jit(with_fori_loop(step, 70))(handle, obs)
    wanted, of_all = by_hand(twin, wanted, 70)
    assert (obs == wanted).all() and (total == of_all).all()


@pytest.mark.parametrize("halves", [False, True])
def test_two_pools_in_one_loop(halves):
    pools, twins = ([envpool.make_gym("CartPole-v1", num_envs=n, seed=n) for n in (8, 24)] for _ in range(2))
    handles, moves, seen = [], [], []
    for envs in pools:
        handle, recv, send, step = envs.xla()
        envs.async_reset()
        handle, (obs, *_) = recv(handle)
        handles.append(handle), seen.append(obs)
        moves.append((lambda handle, action, send=send, recv=recv: recv(send(handle, action))) if halves else step)

    def one(carried, _):
        (first, second), (near, far) = carried
        # One sees what the other has done, and the other way round.
        first, (near, *_) = moves[0](first, policy(near) ^ (far[:8, 3] > 0))
        second, (far, *_) = moves[1](second, policy(far) ^ jnp.tile(near[:, 1] > 0, 3))
        return ((first, second), (near, far)), (near, far)

    _, (near, far) = jax.jit(lambda carried: jax.lax.scan(one, carried, None, length=200))((tuple(handles), tuple(seen)))
    here, there = (envs.reset()[0] for envs in twins)
    for at in range(200):
        here = twins[0].step(((here[:, 2] > 0) ^ (there[:8, 3] > 0)).astype(np.int32))[0]
        there = twins[1].step(((there[:, 2] > 0) ^ np.tile(here[:, 1] > 0, 3)).astype(np.int32))[0]
        assert (here == near[at]).all() and (there == far[at]).all(), at


def test_programs_that_are_not_waited_for_come_one_after_another():
    envs, twin = (envpool.make_gym("CartPole-v1", num_envs=8, seed=2) for _ in range(2))
    handle, recv, _, step = envs.xla()
    envs.async_reset()
    handle, (obs, *_) = recv(handle)
    move = jax.jit(lambda handle, obs: step(handle, policy(obs)))
    wanted = twin.reset()[0]
    for _ in range(300):
        handle, (obs, *_) = move(handle, obs)
        wanted = twin.step((wanted[:, 2] > 0).astype(np.int32))[0]
    assert (obs == wanted).all()


def test_what_is_wrong_is_an_error_of_the_program():
    envs = envpool.make_gym("CartPole-v1", num_envs=4)
    handle, recv, send, step = envs.xla()
    with pytest.raises(jax.errors.JaxRuntimeError, match="no environment is in flight"):
        jax.block_until_ready(jax.jit(recv)(handle))
    with pytest.raises(ValueError, match=r"action has shape \(3,\)"):
        jax.jit(step)(handle, np.zeros(3, np.int32))
    envs.reset()
    with pytest.raises(jax.errors.JaxRuntimeError, match="actions hold 7"):
        jax.block_until_ready(jax.jit(send)(handle, np.full(4, 7)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="env_id holds 9"):
        jax.block_until_ready(jax.jit(send)(handle, np.zeros(1, np.int32), np.array([9])))
    with pytest.raises(jax.errors.JaxRuntimeError, match="1 environments were sent, but a program receives 4"):
        jax.block_until_ready(jax.jit(step)(handle, np.zeros(1, np.int32), np.array([2])))
    envs.close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="closed"):
        jax.block_until_ready(jax.jit(step)(handle, np.zeros(4, np.int32)))
    call = jax.jit(recv).lower(handle).compile()
    del envs, recv, send, step
    with pytest.raises(jax.errors.JaxRuntimeError, match="no longer exist|closed"):
        jax.block_until_ready(call(handle))


def test_other_environments_on_the_processor_have_none():
    with pytest.raises(RuntimeError, match="device is 'cpu'.*warp_rl.envpool"):
        warp_rl.make("CartPole-v1").xla()


def test_without_jax_it_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    for name in ("warp_rl._xla", "warp_rl.envpool._xla"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(RuntimeError, match="jax is needed"):
        envpool.make_gym("CartPole-v1").xla()

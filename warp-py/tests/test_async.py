"""Sending and receiving: who is finished first is received first, and nobody waits for nothing."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time

import numpy as np
import pytest
from conftest import actions_of

import warp_rl


@pytest.mark.parametrize(("num_envs", "batch_size", "threads"), [(8, 3, 2), (5, 1, 1), (300, 200, 3), (130, 129, 0)])
def test_each_environment_does_what_it_does_alone(task, num_envs, batch_size, threads):
    envs = warp_rl.make(task, num_envs=num_envs, batch_size=batch_size, num_threads=threads, seed=11)
    envs.async_reset()
    moved = np.zeros(num_envs, int)
    shown = {i: [] for i in range(num_envs)}
    for _ in range(60):
        obs, reward, terminated, truncated, info = envs.recv()
        ids = info["env_id"]
        assert obs.shape[0] == batch_size == len(set(ids.tolist()))
        for row, i in enumerate(ids):
            shown[i].append((obs[row], reward[row], terminated[row], truncated[row], info["elapsed_step"][row]))
        actions = np.concatenate([actions_of(envs, moved[i], ids[row : row + 1]) for row, i in enumerate(ids)])
        moved[ids] += 1
        envs.send(actions, ids)
    for i in {0, num_envs // 2, num_envs - 1}:
        one = warp_rl.make(task, seed=11 + i)
        obs, info = one.reset()
        for step, (obs_seen, *rest) in enumerate(shown[i]):
            if step > 0:
                obs, *theirs, info = one.step(actions_of(envs, step - 1, np.array([i])))
                assert [value[0] for value in theirs] == rest[:3], (i, step)
            assert (obs[0] == obs_seen).all() and info["elapsed_step"][0] == rest[3], (i, step)


def test_nobody_is_forgotten():
    envs = warp_rl.make("CartPole-v1", num_envs=100, batch_size=7, num_threads=3, seed=0)
    envs.async_reset()
    counts, until = np.zeros(100, int), time.monotonic() + 60
    # A thread that the system keeps waiting keeps its environments waiting, but no longer than that.
    while counts.min() < 50 and time.monotonic() < until:
        *_, info = envs.recv()
        assert len(info["env_id"]) == 7
        counts[info["env_id"]] += 1
        envs.send(np.zeros(7, int), info["env_id"])
    assert counts.min() >= 50, counts


def test_without_ids_those_of_the_last_answer_go_on():
    envs = warp_rl.make("CartPole-v1", num_envs=6, batch_size=2, seed=0)
    envs.async_reset()
    for _ in range(50):
        first = envs.recv()[4]["env_id"].tolist()
        envs.send(np.zeros(2, int))
        with pytest.raises(RuntimeError, match=f"environment {first[0]} is in flight"):
            envs.send([0], [first[0]])
    obs, *_, info = envs.step(*[np.zeros(2, int), envs.recv()[4]["env_id"]])
    assert obs.shape == (2, 4) and info["env_id"].shape == (2,)


def test_what_would_wait_for_ever_is_an_error():
    envs = warp_rl.make("CartPole-v1", num_envs=4, batch_size=2, seed=0)
    with pytest.raises(RuntimeError, match="2 environments are to be received, but only 0 are in flight"):
        envs.recv()
    envs.async_reset()
    for _ in range(2):
        envs.recv()
    with pytest.raises(RuntimeError, match="are in flight"):
        envs.recv()
    envs.send([0], [3])
    with pytest.raises(RuntimeError, match="but only 1 are in flight"):
        envs.recv()
    for ids, error, says in [
        ([3], RuntimeError, "3 is in flight"),
        ([1, 1], ValueError, "env_id = 1"),
        ([4], ValueError, "env_id holds 4"),
        ([-1], ValueError, "env_id holds -1"),
    ]:
        with pytest.raises(error, match=says):
            envs.send(np.zeros(len(ids), int), ids)
    with pytest.raises(ValueError, match="actions"):
        envs.send([2], [1])
    envs.send([1], [1])
    assert sorted(envs.recv()[4]["env_id"]) == [1, 3]


def test_a_step_that_could_not_be_received_sends_nothing():
    envs = warp_rl.make("CartPole-v1", num_envs=4, batch_size=2, seed=0)
    envs.reset()
    own = warp_rl.envpool.make_gymnasium("CartPole-v1", num_envs=4, batch_size=2)
    own.reset()
    for call in [
        lambda: envs.step([0], [3]),
        lambda: own.step(np.zeros(1, np.int32), np.array([3], np.int32)),
        lambda: own.reset(np.array([3], np.int32)),
    ]:
        with pytest.raises(RuntimeError, match="2 environments are to be received, but only 1 are in flight"):
            call()
    for one in (envs, own):
        assert one._pool.under_way == 0
        assert (one._pool.get_state()["replica.event"] == envs.get_state()["replica.event"]).all()
    envs.send([0], [3])
    assert sorted(envs.step([0], [1])[4]["env_id"]) == [1, 3]


def test_reset_lets_all_finish_and_begins_anew():
    envs = warp_rl.make("CartPole-v1", num_envs=9, batch_size=4, seed=2)
    envs.async_reset()
    envs.recv()
    obs, info = envs.reset(seed=2)
    assert obs.shape == (9, 4) and (info["env_id"] == np.arange(9)).all()
    assert (obs == warp_rl.make("CartPole-v1", num_envs=9, seed=2).reset()[0]).all()
    with pytest.raises(RuntimeError, match="but only 0 are in flight"):
        envs.recv()
    envs.send(np.zeros(9, int))
    assert (envs.recv()[4]["elapsed_step"] == 1).all()


def test_a_pool_that_waits_can_be_sent_to_as_well():
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0)
    envs.reset()
    with pytest.raises(RuntimeError, match="no environment is in flight"):
        envs.recv()
    envs.send([0], [2])
    envs.send([1, 1], [0, 3])
    with pytest.raises(ValueError, match="environment 2 was sent"):
        envs.send([0], [2])
    with pytest.raises(RuntimeError, match="environment 2 was sent"):
        envs.step(np.zeros(4, int))
    obs, *_, info = envs.recv()
    assert info["env_id"].tolist() == [2, 0, 3] and obs.shape == (3, 4)
    envs.async_reset([1])
    assert envs.recv()[4]["elapsed_step"].tolist() == [0]
    envs.step(np.zeros(4, int))


def test_what_is_under_way_is_not_pickled():
    envs = warp_rl.make("CartPole-v1", num_envs=4, batch_size=2, seed=0)
    envs.async_reset()
    with pytest.raises(RuntimeError, match="in flight"):
        pickle.dumps(envs)
    envs.recv(), envs.recv()
    other = pickle.loads(pickle.dumps(envs))
    for one in (envs, other):
        one.send(np.zeros(4, int), np.arange(4))
    rows = [np.concatenate([one.recv()[4]["env_id"], one.recv()[4]["env_id"]]) for one in (envs, other)]
    assert sorted(rows[0]) == sorted(rows[1])
    assert all((envs.get_state()[key] == other.get_state()[key]).all() for key in envs.get_state())


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_two_threads_are_in_order_or_refused(mode):
    envs = warp_rl.make("CartPole-v1", num_envs=2000, num_threads=1, seed=0, autoreset_mode=mode, max_episode_steps=2)
    envs.reset()
    counts, others = [0, 0], []

    def work(which):
        for _ in range(300):
            try:
                envs.step(np.zeros(2000, int))
                counts[which] += 1
            except RuntimeError:
                pass
            except BaseException as error:
                others.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not others and sum(counts) > 0
    events = envs.get_state()["replica.event"]
    # Every second step ends an episode, and begins one where that is the same step's work.
    begun = sum(counts) // 2 if mode == "same_step" else 0
    assert (events == 1 + sum(counts) + begun).all()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are looked at in /proc")
def test_threads_are_put_on_cores():
    before = set(os.listdir("/proc/self/task"))
    cores = len(os.sched_getaffinity(0))
    envs = warp_rl.make("CartPole-v1", num_envs=64, batch_size=8, num_threads=2, thread_affinity_offset=1, seed=0)
    until = time.monotonic() + 30
    wanted, on = sorted([(1 % cores,), (2 % cores,)]), []
    while on != wanted and time.monotonic() < until:
        threads = set(os.listdir("/proc/self/task")) - before
        on = sorted(tuple(os.sched_getaffinity(int(thread))) for thread in threads)
    assert on == wanted
    envs.async_reset()
    assert envs.recv()[0].shape == (8, 4)


def test_what_is_refused_does_not_change_who_goes_on():
    envs = warp_rl.make("CartPole-v1", num_envs=6, batch_size=2, seed=0)
    envs.async_reset()
    envs.recv()
    ids = envs.recv()[4]["env_id"]
    with pytest.raises(ValueError, match="actions"):
        envs.send([9], ids[:1])
    envs.send([0, 0])
    assert set(ids) <= {*envs.recv()[4]["env_id"], *envs.recv()[4]["env_id"]}

"""Memory that others look at without a copy."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from conftest import actions_of

import warp_rl


@pytest.mark.parametrize("copy", [True, False])
def test_buffers_show_every_step(task, copy):
    envs = warp_rl.make(task, num_envs=4, seed=0, copy=copy)
    obs, _ = envs.reset()
    buffers = {name: envs.buffer(name) for name in envs.buffer_names()}
    assert {"obs", "reward", "terminated", "truncated", "env_id", "elapsed_step"} <= set(buffers)
    views = {name: np.asarray(buffer) for name, buffer in buffers.items()}
    assert (views["obs"] == obs).all()
    addresses = {name: buffer.__array_interface__["data"][0] for name, buffer in buffers.items()}
    for step in range(30):
        answer = envs.step(actions_of(envs, step))
        for name, array in zip(("obs", "reward", "terminated", "truncated"), answer, strict=False):
            assert (views[name] == array).all() and views[name].dtype == array.dtype
        assert (views["elapsed_step"] == answer[4]["elapsed_step"]).all()
    assert {name: envs.buffer(name).__array_interface__["data"][0] for name in buffers} == addresses


def test_a_buffer_that_is_asked_for_late_has_each_row_where_it_belongs():
    envs = warp_rl.make("CartPole-v1", num_envs=4, seed=0)
    envs.reset()
    some = envs.step([0, 1], [3, 1])[0]
    assert (np.asarray(envs.buffer("obs"))[[3, 1]] == some).all()
    assert np.asarray(envs.buffer("env_id"))[3] == 3


def test_the_array_interface():
    buffer = warp_rl.make("CartPole-v1", num_envs=3, copy=False).buffer("obs")
    said = buffer.__array_interface__
    assert said["version"] == 3 and said["shape"] == (3, 4) == buffer.shape and said["typestr"] == "<f4"
    assert said["strides"] is None and said["data"][1] is False and buffer.dtype == np.float32
    with pytest.raises(KeyError, match="nothing"):
        warp_rl.make("CartPole-v1").buffer("nothing")


def test_dlpack():
    envs = warp_rl.make("CartPole-v1", num_envs=3, seed=0, copy=False)
    obs, _ = envs.reset()
    buffer = envs.buffer("obs")
    assert buffer.__dlpack_device__() == (1, 0)
    seen = np.from_dlpack(buffer)
    assert (seen == obs).all() and seen.ctypes.data == obs.ctypes.data
    assert '"dltensor"' in repr(buffer.__dlpack__())
    # NumPy 2.0 has no versions: it answers without one.
    has_versions = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    named = "dltensor_versioned" if has_versions else "dltensor"
    assert f'"{named}"' in repr(buffer.__dlpack__(max_version=(1, 0)))
    assert np.from_dlpack(envs.buffer("terminated")).dtype == np.bool_
    assert f'"{named}"' in repr(buffer.__dlpack__(max_version=(1, 0), copy=True))
    if has_versions:
        assert np.from_dlpack(buffer, copy=True).ctypes.data != seen.ctypes.data
    for bad in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (2, 0), "copy": False}):
        with pytest.raises(BufferError):
            buffer.__dlpack__(**bad)
    before = seen.copy()
    del envs, buffer, obs
    gc.collect()
    assert (seen == before).all(), "the memory outlives the environments"


@pytest.mark.parametrize("output", ["torch", "dlpack"])
def test_tensors_are_made_once(output):
    if output == "torch":
        pytest.importorskip("torch")
    envs = warp_rl.make("CartPole-v1", num_envs=5, seed=0, output=output)
    twin = warp_rl.make("CartPole-v1", num_envs=5, seed=0)
    obs, info = envs.reset()
    assert (np.asarray(obs) == twin.reset()[0]).all()
    for step in range(20):
        answer = envs.step(actions_of(envs, step))
        theirs = twin.step(actions_of(envs, step))
        assert answer[0] is obs and answer[4]["env_id"] is info["env_id"]
        assert all((np.asarray(a) == b).all() for a, b in zip(answer[:4], theirs[:4], strict=True))
    some = envs.step([1, 0], [4, 2])
    assert (np.asarray(some[0]) == twin.step([1, 0], [4, 2])[0]).all()

"""Processes, threads, memory, types: what must not go wrong elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import warp_rl


def run(code: str, seconds: float = 60, *, errors: bool = False) -> str:
    """What a program of its own prints, or says as `errors`."""
    line = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr if errors else done.stdout


def test_importing_loads_no_library_that_others_have():
    said = run(
        """
        import sys, time, numpy, gymnasium
        began = time.perf_counter()
        import warp_rl
        took = time.perf_counter() - began
        print([name for name in ("torch", "jax", "pettingzoo", "dm_env", "stable_baselines3") if name in sys.modules])
        assert took < 1.0, took
        """
    )
    assert said.strip() == "[]"


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("batch_size", [None, 2])
def test_after_a_fork(batch_size):
    envs = warp_rl.make("CartPole-v1", num_envs=2000 if batch_size is None else 8, batch_size=batch_size, seed=0)
    envs.reset()
    child = os.fork()
    if child == 0:
        try:
            try:
                envs.reset()
                os._exit(3)
            except RuntimeError:
                pass
            del envs
            others = warp_rl.make("CartPole-v1", num_envs=300, seed=0)
            others.reset()
            others.step(np.zeros(300, int))
            os._exit(0)
        except BaseException:
            os._exit(4)
    until = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.monotonic() < until, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    envs.reset()


def test_leaving_with_work_under_way():
    run(
        """
        import numpy as np, warp_rl
        envs = warp_rl.make("Acrobot-v1", num_envs=2000, batch_size=10, num_threads=3)
        envs.async_reset()
        kept = envs.recv()
        envs.send(np.zeros(10, int))
        """
    )


def test_other_threads_run_meanwhile():
    envs = warp_rl.make("Acrobot-v1", num_envs=200_000, num_threads=1, seed=0)
    envs.reset()
    actions = np.zeros(200_000, int)
    count, over = 0, threading.Event()

    def step():
        for _ in range(5):
            envs.step(actions)
        over.set()

    thread = threading.Thread(target=step)
    thread.start()
    while not over.is_set():
        count += 1
        time.sleep(0)
    thread.join()
    assert count > 20


def test_memory_stays_flat():
    resource = pytest.importorskip("resource")
    envs = warp_rl.make("Taxi-v4", num_envs=1000, seed=0)
    envs.reset()
    actions = np.zeros(1000, int)

    def work(n):
        for _ in range(n):
            obs, *_, info = envs.step(actions)
            envs.get_state()
            with pytest.raises(ValueError):
                envs.step(actions[1:])
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = work(300)
    assert work(3000) - before < 8_000, "KiB"


def test_random_misuse_is_refused_and_never_fatal():
    rng = np.random.default_rng(0)
    values = [
        None, 0, -1, 3, 1.5, "x", [], [0], [[0]], [0, 1, 2], (1, 0), {}, {"a": 1}, object(), True, 2**70, b"b",
        np.zeros(3), np.zeros(3, int), np.zeros((3, 1), int), np.ones(3, bool), np.array(["a"]), np.array(None),
        np.full(3, np.nan), np.zeros((0,)), np.arange(3, dtype=np.int8)[::-1], np.zeros(3, "M8[s]"), lambda: 0,
    ]  # fmt: skip
    tasks = ["CartPole-v1", "Pendulum-v1", "Taxi-v4"]
    pools = [warp_rl.make(task, num_envs=3, batch_size=b, seed=0) for task in tasks for b in (None, 2)]

    def pick():
        return values[rng.integers(len(values))]

    calls = [
        lambda envs: envs.step(pick()),
        lambda envs: envs.step(pick(), pick()),
        lambda envs: envs.send(pick(), pick()),
        lambda envs: envs.recv(),
        lambda envs: envs.async_reset(pick()),
        lambda envs: envs.reset(seed=pick()),
        lambda envs: envs.reset(options={"reset_mask": pick()}),
        lambda envs: envs.set_state({list(envs.get_state())[rng.integers(5)]: pick()}, pick()),
        lambda envs: warp_rl.make(tasks[rng.integers(3)], num_envs=pick(), seed=pick()),
        lambda envs: warp_rl.make(pick(), autoreset_mode=pick()),
    ]
    refused = 0
    for _ in range(6000):
        try:
            calls[rng.integers(len(calls))](pools[rng.integers(len(pools))])
        except (ValueError, TypeError, RuntimeError, KeyError, OverflowError) as error:
            refused += 1
            assert str(error)
    assert refused > 1000
    for envs in pools:
        envs.reset(seed=0)


class Unreadable:
    """An argument whose reading raises an error."""

    def __init__(self, error):
        self.error = error

    def __array__(self, *_, **__):
        raise self.error

    def tolist(self):
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("none left"), ZeroDivisionError("of the argument")])
def test_only_an_arguments_own_fault_is_a_type_error(error):
    envs = warp_rl.make("CartPole-v1", num_envs=2, seed=0)
    envs.reset()
    is_own = isinstance(error, ZeroDivisionError)
    for call in [
        lambda: envs.step(Unreadable(error)),
        lambda: envs.step(np.zeros(2, int), Unreadable(error)),
        lambda: warp_rl.make("FrozenLake-v1", success_rate=Unreadable(error)),
    ]:
        with pytest.raises(TypeError if is_own else type(error)) as raised:
            call()
        assert (raised.value.__cause__ if is_own else raised.value) is error


class Device:
    """A device as torch has it: no text, but it has one's name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


def test_a_device_is_known_by_its_name(tmp_path):
    assert warp_rl.make("CartPole-v1", device=Device("cpu")).num_envs == 1
    warp_rl.train("cartpole", device=Device("cpu"), out=tmp_path / "run", total_steps=500)
    for wrong in (Device("tpu"), np.zeros(3)):
        with pytest.raises(ValueError, match="device is .*, but must be 'cpu', 'cuda'"):
            warp_rl.make("CartPole-v1", device=wrong)
        with pytest.raises(ValueError, match="device is .*, but must be 'cpu', 'cuda'"):
            warp_rl.train("cartpole", device=wrong)


def test_who_calls_while_another_call_runs_is_told_what_to_do():
    envs, told = warp_rl.make("CartPole-v1", num_envs=2, seed=0), []
    envs.reset()
    pool = envs._pool

    class Calling:
        """Actions, with which another call begins while they are read."""

        def __array__(self, *_, **__):
            for call in (envs.get_state, envs.recv, envs.close, lambda: pool.answered, lambda: pool.under_way):
                with pytest.raises(RuntimeError) as raised:
                    call()
                told.append(str(raised.value))
            return np.zeros(2, int)

    envs.step(Calling())
    assert set(told) == {
        "these environments are in use by another call, which has not returned: only one thread at a time may use "
        "them, so share a lock or create some for each thread"
    }
    assert len(told) == 5 and envs.num_envs == len(envs.step(np.zeros(2, int))[0])


def test_options_that_change_while_they_are_read_are_read_as_they_were():
    config = {}

    class Busy:
        def tolist(self):
            config.update({f"key_{i}": 1 for i in range(50)})
            return 0.5

    config["success_rate"] = Busy()
    warp_rl._native.describe("frozen_lake", config)


def test_what_could_not_be_made_is_not_closed():
    said = run(
        """
        import gc, warp_rl, warp_rl.envpool
        for make in (warp_rl.make, warp_rl.make_multi, warp_rl.envpool.make_gym):
            for wrong in ({"num_envs": 0}, {"device": "cuda:99"}, {"nothing": 1}):
                try:
                    make("CartPole-v1", **wrong)
                except (ValueError, TypeError, RuntimeError, AssertionError):
                    pass
        gc.collect()
        """,
        errors=True,
    )
    assert said == ""


def test_types():
    pytest.importorskip("mypy")
    user = Path(__file__).with_name("user_code.py")
    line = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(user)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=user.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([sys.executable, str(user)], capture_output=True, check=False).returncode == 0


def test_stubs_say_what_there_is():
    import ast
    import inspect

    from warp_rl import _native

    text = Path(warp_rl.__file__).with_name("_native.pyi").read_text()
    said, signatures = {}, {}
    for node in ast.parse(text).body:
        for one in [node, *getattr(node, "body", [])]:
            if isinstance(one, ast.FunctionDef) and not one.decorator_list:
                path = one.name if one is node else f"{node.name}.{one.name}"
                signatures[path] = [arg.arg for arg in (*one.args.args, *one.args.kwonlyargs)]
        if isinstance(node, ast.ClassDef):
            said[node.name] = {
                one.name for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
            }
        elif isinstance(node, ast.FunctionDef):
            said[node.name] = None
    there = {name for name in dir(_native) if not name.startswith("_")}
    # A build without the feature cuda has no environments on GPUs.
    assert {name for name in said if name in there or not name.startswith("Cuda")} == there
    for name, members in said.items():
        if members is not None and name in there:
            assert members == {one for one in vars(getattr(_native, name)) if not one.startswith("_")}, name
    for path, names in signatures.items():
        of, _, method = path.partition(".")
        assert method != "__init__", "classes of the native module have __new__ alone"
        if of in there and not (method.startswith("__") and method != "__new__"):
            # The class itself says what it is made with.
            called = getattr(_native, of) if method in ("", "__new__") else getattr(getattr(_native, of), method)
            assert list(inspect.signature(called).parameters) == names[method == "__new__" :], path


def test_names_are_those_of_the_interface():
    from warp_rl import _native, envpool

    for module in (warp_rl, envpool):
        shown = {name for name in dir(module) if not name.startswith("_")}
        assert shown >= set(module.__all__) and not shown & {"annotations", "Any", "count", "one_of", "check"}
        assert all(getattr(module, name) is not None for name in module.__all__)
    assert _native.Pool.__module__ == _native.Policy.__module__ == _native.Frame.__module__ == "warp_rl._native"


def test_misuse_for_some_seconds():
    script = Path(__file__).with_name("misuse.py")
    done = subprocess.run([sys.executable, "-W", "ignore", str(script), "6", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

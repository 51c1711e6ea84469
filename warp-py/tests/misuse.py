"""Random misuse: calls that nobody should make, for as long as it is told. `python misuse.py SECONDS [SEED [cuda]]`

Whatever is called, Python goes on: each call answers, or raises an error that the specification allows. In between,
environments that were used well must do what they do alone, and memory must not grow. Ends with 1 otherwise. With
"cuda" half of the environments live on a GPU, and half of what is given to them are torch's tensors there.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import random
import resource
import sys
import threading
import time

import numpy as np

import warp_rl
import warp_rl._single

ALLOWED = (ValueError, TypeError, RuntimeError, KeyError, AssertionError, BufferError, OverflowError, IndexError, AttributeError, ImportError)
#: What else may come of it is an error of this script's, or of the package's.
ON_GPU = len(sys.argv) > 3
#: A list that holds itself.
ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)
#: Bytes of a block of Python's own allocator, about.
BYTES_OF_BLOCK = 64
#: MiB that may be in use beyond what was after a quarter of the time: of a GPU's memory CUDA itself keeps some.
MOST_GROWN = 64 if ON_GPU else 8
if ON_GPU:
    import torch

    ALLOWED = (*ALLOWED, torch.OutOfMemoryError)


def odd(rng: random.Random, n: int) -> object:
    """Something that is no good argument, or is one."""
    shapes = [(n,), (n + 1,), (0,), (n, 1), (1, n), (), (n, 3, 2)]
    dtypes = ["int8", "int64", "uint64", "float32", "float64", "bool", "U3", "object", "complex64", "datetime64[s]"]
    values = [0, 1, -1, 3, 2**31, 2**63 - 1, -(2**63), np.nan, np.inf]

    def array() -> object:
        with np.errstate(all="ignore"):
            full = np.zeros(rng.choice(shapes), rng.choice(dtypes))
            if full.dtype.kind in "iuf" and full.size:
                value = rng.choice(values)
                if full.dtype.kind == "f" or (np.isfinite(value) and np.iinfo(full.dtype).min <= value <= np.iinfo(full.dtype).max):
                    full.flat[rng.randrange(full.size)] = value
        return full[:: rng.choice([1, 1, 2, -1])] if full.ndim else full

    return rng.choice(
        [
            array,
            array,
            array,
            lambda: [rng.randrange(2) for _ in range(n)],
            lambda: np.arange(rng.randrange(2 * n + 1)),
            lambda: rng.sample(range(n), rng.randrange(n + 1)),
            lambda: None,
            lambda: "up",
            lambda: object(),
            lambda: {"pole": 1},
            lambda: float("nan"),
            lambda: 10**30,
            lambda: [[1], [2, 3]],
            lambda: memoryview(b"abc"),
            lambda: ENDLESS,
            *([lambda: tensor(rng, array())] * 5 if ON_GPU else []),
        ]
    )()


def tensor(rng: random.Random, array: np.ndarray) -> object:
    """A tensor of torch's on the GPU, with strides of its own."""
    if array.dtype.kind not in "biuf" or any(stride < 0 for stride in array.strides):
        array = np.zeros(rng.randrange(5), np.int64)
    made = torch.from_numpy(array.copy()).cuda()
    return made.repeat(2)[::2] if made.ndim == 1 and rng.random() < 0.5 else made


def make(rng: random.Random) -> object:
    """Environments, asynchronous ones among them, or an error."""
    n = rng.choice([1, 2, 7, 64, 130])
    given = {
        "num_envs": rng.choice([n, n, n, 0, -3, "x"]),
        "batch_size": rng.choice([None, None, max(1, n // 2), 1, n + 1]),
        "num_threads": rng.choice([0, 1, 2, 3, -1]),
        "seed": rng.choice([None, 3, -1, 2**64, list(range(n)), [1], "seed"]),
        "autoreset_mode": rng.choice(["next_step", "same_step", "disabled", "never"]),
        "max_episode_steps": rng.choice([None, 5, 0, 10**9]),
        "copy": rng.choice([True, False]),
        "render_mode": rng.choice([None, None, "rgb_array", "human"]),
    }
    for key in rng.sample(list(given), rng.randrange(len(given))):
        given.pop(key)
    if rng.random() < 0.1:
        given[rng.choice(["lenght", "is_slippery", "gravity"])] = odd(rng, n)
    kind = rng.randrange(9)
    if kind > 5:
        return alone(rng, kind, given.get("seed"), given.get("max_episode_steps"))
    if ON_GPU and kind != 1 and rng.random() < 0.6:
        given["device"] = "cuda"
        given["output"] = rng.choice(["numpy", "torch", "dlpack"])
        given.pop("batch_size", None)
    if kind == 0:
        return warp_rl.make_multi(rng.choice(warp_rl.list_parallel_envs()), **given)
    if kind == 1:
        given = {key: value for key, value in given.items() if key in ("num_envs", "batch_size", "num_threads", "seed")}
        return warp_rl.envpool.make_gymnasium(rng.choice(list(warp_rl._tasks.TABLE)), **given)
    task = rng.choice([*warp_rl.list_envs(), "CartPol-v1", 7])
    return warp_rl.make(task, **given)


def alone(rng: random.Random, kind: int, seed: object, limit: object) -> object:
    """One environment behind other interfaces than Gymnasium's of many."""
    if kind == 6:
        return warp_rl._single.SingleEnv(rng.choice(warp_rl.list_envs()), max_episode_steps=limit)
    if kind == 7:
        return warp_rl.make_parallel(rng.choice(warp_rl.list_parallel_envs()), seed=seed, max_episode_steps=limit)
    return warp_rl.make_dm(rng.choice(warp_rl.list_envs()), rng.choice([None, 4]), seed=seed)


def good(rng: random.Random, envs: object, rows: int) -> object:
    """Actions that may be taken."""
    if not hasattr(envs, "num_envs"):
        return {agent: 0 for agent in envs.agents} if hasattr(envs, "agents") else rng.randrange(2)
    if not hasattr(envs, "single_action_space"):
        return np.zeros((rows, *envs.action_spec().shape), envs.action_spec().dtype)
    if hasattr(envs, "groups"):
        return {
            name: np.zeros((rows, envs.groups[name], *(space.shape or ())), space.dtype)
            for name, space in envs.single_action_space.items()
        }
    space = envs.single_action_space
    if hasattr(space, "n"):
        return np.array([rng.randrange(int(space.n)) for _ in range(rows)])
    return np.zeros((rows, *space.shape), space.dtype)


def call(rng: random.Random, envs: object) -> None:
    """One call, sensible or not."""
    n = getattr(envs, "num_envs", 4)
    some = rng.sample(range(n), rng.randrange(1, n + 1))
    calls = [
        lambda: envs.reset(),
        lambda: envs.reset(seed=rng.choice([1, [1, 2], None, "x"])),
        lambda: envs.reset(options={"reset_mask": odd(rng, n)}),
        lambda: envs.reset(options={"reset_mask": np.arange(n) % 2 == 0}),
        lambda: envs.step(good(rng, envs, n)),
        lambda: envs.step(good(rng, envs, len(some)), some),
        lambda: envs.step(good(rng, envs, n), odd(rng, n)),
        lambda: envs.step(odd(rng, n)),
        lambda: envs.send(good(rng, envs, n)),
        lambda: envs.send(good(rng, envs, len(some)), some),
        lambda: envs.send(odd(rng, n), odd(rng, n)),
        lambda: envs.recv(),
        lambda: envs.async_reset(),
        lambda: envs.async_reset(odd(rng, n)),
        lambda: envs.get_state(),
        lambda: envs.set_state({rng.choice(list(envs.get_state())): odd(rng, n)}),
        lambda: envs.set_state(envs.get_state(), some),
        lambda: envs.set_state(odd(rng, n)),
        lambda: pickle.loads(pickle.dumps(envs)),
        lambda: envs.buffer(rng.choice(["obs", "reward", "nothing", 3])).__dlpack__(stream=rng.choice([None, 1, 0])),
        lambda: np.from_dlpack(envs.buffer("obs")).sum(),
        lambda: envs.final_obs,
        lambda: envs.render([0]),
        lambda: envs.close() if rng.random() < 0.05 else None,
        lambda: together(envs, lambda: envs.step(good(rng, envs, n))),
    ]
    rng.choice(calls)()


def together(envs: object, work: object) -> None:
    """Two threads at once: each is done, or refused."""
    broken: list[BaseException] = []

    def quietly() -> None:
        try:
            work()
        except ALLOWED:
            pass
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=quietly) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]


class Witness:
    """Environments that are used well: they do what another of the same seed does."""

    def __init__(self) -> None:
        devices = ["cpu", "cuda" if ON_GPU else "cpu"]
        self.pair = [warp_rl.make("CartPole-v1", num_envs=n, seed=9, device=on) for n, on in zip((3, 40), devices)]
        for envs in self.pair:
            envs.reset()
        self.steps = 0

    def check(self) -> None:
        self.steps += 1
        few, many = (envs.step((np.arange(envs.num_envs) + self.steps) % 2)[:4] for envs in self.pair)
        for here, there in zip(few, many, strict=True):
            assert (here == there[:3]).all(), "environments have changed each other"


def main(seconds: float, seed: int) -> int:
    """Misuse for so many seconds. Prints, twenty times, how much memory is held, and what was called and refused."""
    rng, until, began = random.Random(seed), time.monotonic() + seconds, time.monotonic()
    made: list[object] = []
    witness, calls, refused, marks = Witness(), 0, 0, [0.0]
    while time.monotonic() < until:
        try:
            calls += 1
            if not made or rng.random() < 0.03:
                made.append(make(rng))
                if len(made) > 12:
                    made.pop(rng.randrange(len(made)))
            else:
                call(rng, rng.choice(made))
        except ALLOWED as error:
            refused += 1
            assert str(error), f"{type(error).__name__} says nothing"
        if calls % 50 == 0:
            witness.check()
        if time.monotonic() - began > seconds * len(marks) / 20:
            marks.append(held(made))
            print(f"{calls} calls: {marks[-1]:.1f} MiB in use, {resident():.0f} resident", flush=True)
    grown = held(made) - marks[5]
    print(f"{calls} calls, {refused} refused, {grown:.1f} MiB more in use than after a quarter of the time, seed {seed}")
    return int(grown > MOST_GROWN)


def resident() -> float:
    """MiB of the process."""
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize() / 2**20


class Allocated(ctypes.Structure):
    """What glibc's `mallinfo2` says of its heaps."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def held(made: list[object]) -> float:
    """MiB that are in use once all environments are gone: by the allocator, by Python's objects and on the GPU.

    Not those of the process: what is free between what is used is no leak.
    """
    made.clear()
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Allocated
    heaps = libc.mallinfo2()
    in_use = heaps.uordblks + heaps.hblkhd + BYTES_OF_BLOCK * sys.getallocatedblocks()
    if ON_GPU:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, all_of_it = torch.cuda.mem_get_info()
        in_use += all_of_it - free
    return in_use / 2**20


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)))

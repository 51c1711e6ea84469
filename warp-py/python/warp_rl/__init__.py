"""Fast reinforcement-learning environments, and training in them.

    import warp_rl
    envs = warp_rl.make("CartPole-v1", num_envs=1024)
    observations, info = envs.reset(seed=0)

Unrelated to NVIDIA's Warp, whose package is called `warp`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _tasks
from ._checks import count, one_of
from ._registration import register as _register
from ._spec import EnvSpec, make_spec
from ._vector import VectorEnv

if TYPE_CHECKING:
    import dm_env
    from gymnasium.vector import AutoresetMode

    from ._buffer import Buffer
    from ._dm import make_dm
    from ._multi import MultiVectorEnv, make_multi
    from ._parallel import ParallelEnv, make_parallel
    from ._training import Policy, Progress, train

__all__ = [
    "Buffer",
    "EnvSpec",
    "MultiVectorEnv",
    "ParallelEnv",
    "Policy",
    "Progress",
    "VectorEnv",
    "list_envs",
    "list_parallel_envs",
    "make",
    "make_dm",
    "make_multi",
    "make_parallel",
    "make_spec",
    "mujoco_version",
    "train",
]

#: What is loaded when it is asked for, since it needs packages that not everyone has, or time.
_LATER = {
    "Buffer": ("warp_rl._buffer", "Buffer"),
    "MultiVectorEnv": ("warp_rl._multi", "MultiVectorEnv"),
    "ParallelEnv": ("warp_rl._parallel", "ParallelEnv"),
    "__version__": ("warp_rl._version", "VERSION"),
    "envpool": ("warp_rl.envpool", None),
    "make_dm": ("warp_rl._dm", "make_dm"),
    "make_multi": ("warp_rl._multi", "make_multi"),
    "make_parallel": ("warp_rl._parallel", "make_parallel"),
    "sb3": ("warp_rl.sb3", None),
    "Policy": ("warp_rl._training", "Policy"),
    "Progress": ("warp_rl._training", "Progress"),
    "train": ("warp_rl._training", "train"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'warp_rl' has no attribute {name!r}")
    module, attribute = _LATER[name]
    loaded = importlib.import_module(module)
    return loaded if attribute is None else getattr(loaded, attribute)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *(name for name in globals() if name.startswith("__"))})


@overload
def make(
    task_id: str,
    env_type: Literal["gymnasium"] = "gymnasium",
    *,
    num_envs: int = 1,
    batch_size: int | None = None,
    num_threads: int = 0,
    thread_affinity_offset: int = -1,
    seed: int | Sequence[int] | None = None,
    max_episode_steps: int | None = None,
    autoreset_mode: str | AutoresetMode = "next_step",
    device: str = "cpu",
    copy: bool = True,
    output: Literal["numpy", "torch", "dlpack"] = "numpy",
    render_mode: str | None = None,
    **config: Any,
) -> VectorEnv: ...


@overload
def make(task_id: str, env_type: Literal["dm"], *, num_envs: int = 1, **config: Any) -> dm_env.Environment: ...


@overload
def make(task_id: str, env_type: Literal["parallel"], **config: Any) -> ParallelEnv: ...


def make(
    task_id: str,
    env_type: str = "gymnasium",
    *,
    num_envs: int = 1,
    batch_size: int | None = None,
    num_threads: int = 0,
    thread_affinity_offset: int = -1,
    seed: int | Sequence[int] | None = None,
    max_episode_steps: int | None = None,
    autoreset_mode: str | AutoresetMode = "next_step",
    device: str = "cpu",
    copy: bool = True,
    output: str = "numpy",
    render_mode: str | None = None,
    **config: Any,
) -> Any:
    """Environments of a task, stepped together behind Gymnasium's interface.

    `env_type` "dm" and "parallel" are made by `make_dm` and `make_parallel` of a seed, a time limit and `config`;
    "dm" of several environments takes threads and a batch size, too.

    Raises ValueError for an unknown task or a value out of range, TypeError for an unknown option.
    """
    if env_type != "gymnasium":
        one_of("env_type", env_type, "gymnasium", "dm", "parallel")
        # Whatever would be left out is refused.
        one_of("autoreset_mode", autoreset_mode, "next_step")
        one_of("device", device, "cpu")
        one_of("copy", copy, True)
        one_of("output", output, "numpy")
        one_of("render_mode", render_mode, None)
        given: dict[str, Any] = {"seed": seed, "max_episode_steps": max_episode_steps}
        if env_type == "dm" and num_envs != 1:
            given.update(num_envs=num_envs, batch_size=batch_size, num_threads=num_threads)
            given.update(thread_affinity_offset=thread_affinity_offset)
        else:
            one_of("num_envs", num_envs, 1)
            one_of("batch_size", batch_size, None, 1)
            # One environment is on the caller's thread, and no result depends on it.
            count("num_threads", num_threads, 0)
            count("thread_affinity_offset", thread_affinity_offset, -1)
        config.update({name: value for name, value in given.items() if value is not None})
        return __getattr__(f"make_{env_type}")(task_id, **config)
    return VectorEnv(
        task_id,
        num_envs=num_envs,
        batch_size=batch_size,
        num_threads=num_threads,
        thread_affinity_offset=thread_affinity_offset,
        seed=seed,
        max_episode_steps=max_episode_steps,
        autoreset_mode=autoreset_mode,
        device=device,
        copy=copy,
        output=output,
        render_mode=render_mode,
        **config,
    )


def list_envs() -> list[str]:
    """Names of all tasks with one agent."""
    return _tasks.lone()


def list_parallel_envs() -> list[str]:
    """Names of all environments with several agents, for `make_parallel` and `make_multi`."""
    return _tasks.with_groups()


def mujoco_version() -> str | None:
    """The version of MuJoCo that tasks run on; None: there are no such tasks."""
    return None


_register()

"""EnvPool's module, as a drop-in: `import warp_rl.envpool as envpool`.

Names, arguments, defaults and answers are EnvPool 1.x's. Where it crashes or its behaviour is undefined, an exception is raised here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._tasks import TABLE
from ._gymnasium import EnvPool, GymnasiumEnvPool
from ._spec import EnvSpec, check

if TYPE_CHECKING:
    from ._dm import DMEnvPool

__all__ = [
    "DMEnvPool",
    "EnvPool",
    "EnvSpec",
    "GymnasiumEnvPool",
    "list_all_envs",
    "make",
    "make_dm",
    "make_gym",
    "make_gymnasium",
    "make_spec",
]


def make(task_id: str, env_type: str, **kwargs: Any) -> GymnasiumEnvPool | DMEnvPool:
    """Environments of a task behind Gymnasium's interface ("gymnasium", "gym") or dm_env's ("dm")."""
    check(env_type in ("gym", "gymnasium", "dm"), f"env_type is {env_type!r}, but it is one of 'gym', "
          "'gymnasium' and 'dm'")
    return make_dm(task_id, **kwargs) if env_type == "dm" else GymnasiumEnvPool(task_id, **kwargs)


def make_gymnasium(task_id: str, **kwargs: Any) -> GymnasiumEnvPool:
    """As `make(task_id, "gymnasium", ...)`."""
    return GymnasiumEnvPool(task_id, **kwargs)


def make_gym(task_id: str, **kwargs: Any) -> GymnasiumEnvPool:
    """The same as `make_gymnasium`."""
    return make_gymnasium(task_id, **kwargs)


def make_dm(task_id: str, **kwargs: Any) -> DMEnvPool:
    """As `make(task_id, "dm", ...)`; needs dm_env."""
    from ._dm import DMEnvPool

    return DMEnvPool(task_id, **kwargs)


def make_spec(task_id: str, **kwargs: Any) -> EnvSpec:
    """The description of a task before it is created."""
    return EnvSpec(task_id, **kwargs)


def list_all_envs() -> list[str]:
    """Names of all tasks."""
    return list(TABLE)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    # It needs dm_env, which not everyone has.
    if name == "DMEnvPool":
        from ._dm import DMEnvPool

        return DMEnvPool
    raise AttributeError(f"module 'warp_rl.envpool' has no attribute {name!r}")

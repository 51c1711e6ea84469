"""Environments in functions that JAX compiles: `xla()`, as EnvPool has it.

`send`, `recv` and `step` are custom calls of XLA's, in which neither Python nor JAX's callbacks have a part. In a
program on a GPU they copy actions down on XLA's stream, wait for them, and copy answers up behind what is on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._xla import Calls

if TYPE_CHECKING:
    from ._core import Core


def functions(envs: Core) -> tuple[Any, Any, Any, Any]:
    """A handle, `recv(handle)`, `send(handle, action, env_id=None)` and `step(handle, action, env_id=None)`."""
    rows = envs.config["batch_size"]
    shown = {
        name: jax.ShapeDtypeStruct((rows, *item), np.dtype(dtype))
        for name, dtype, item in envs._pool.xla_shown()
    }
    calls = Calls(envs._pool, "warp_rl_", shown)
    item = envs.spec.action_space.shape or ()

    def orders(action: Any, env_id: Any) -> tuple[Any, Any]:
        action, env_id = envs._as_orders(action, env_id, jnp)
        wanted = (len(env_id), *item)
        if action.shape != wanted:
            raise ValueError(f"action has shape {action.shape}, but {wanted} is needed")
        return action, env_id

    def answer(handle: Any, named: dict[str, Any]) -> tuple[Any, Any]:
        first = [named.pop(key) for key in ("obs", "reward", "terminated", "truncated")]
        return handle, envs._as_answer(*first, named, jnp)

    def recv(handle: Any) -> tuple[Any, Any]:
        return answer(*calls.recv(handle))

    def send(handle: Any, action: Any, env_id: Any = None) -> Any:
        return calls.send(handle, *orders(action, env_id))

    def step(handle: Any, action: Any, env_id: Any = None) -> tuple[Any, Any]:
        return answer(*calls.step(handle, *orders(action, env_id)))

    return calls.handle, recv, send, step

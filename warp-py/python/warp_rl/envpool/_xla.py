"""Environments in functions that JAX compiles: `xla()`, as EnvPool has it.

On the processor `send`, `recv` and `step` are custom calls of XLA's, in which neither Python nor JAX's callbacks have
a part; on a GPU they are callbacks of JAX's, which copies actions down and answers up. What one is given and hands
on, the handle, is an array like others: a call that takes what another hands on comes after it, whatever XLA makes of
a program. On a GPU that has not held within loops, which is not explained yet: `functions` warns of it. `step` is one
call, so nothing can come between its halves.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from .. import _native

if TYPE_CHECKING:
    from ._core import Core


@functools.cache
def _register() -> None:
    for name, target in _native.xla_targets().items():
        jax.ffi.register_ffi_target(name, target, platform="cpu")


class Calls:
    """`send`, `recv` and `step` of environments, as functions that JAX can trace.

    `called_back`: as callbacks, which programs of every device can make, and not as custom calls of the processor's.
    """

    def __init__(self, envs: Core, *, called_back: bool) -> None:
        _register()
        self._envs = envs
        self._called_back = called_back
        number = _native.xla_number(envs._pool)
        self._number = np.int64(number)
        #: What is handed from call to call: eight bytes, as EnvPool's.
        self.handle = np.frombuffer(np.int64(number).tobytes(), np.uint8)
        said = envs._pool.xla_shown()
        self._names = [name for name, _, _ in said]
        rows = self._rows = envs.config["batch_size"]
        self._passed = jax.ShapeDtypeStruct((8,), np.uint8)
        self._shown = [jax.ShapeDtypeStruct((rows, *item), np.dtype(dtype)) for name, dtype, item in said]

    def send(self, handle: Any, action: Any, env_id: Any) -> Any:
        """Sends environments off; the handle for what comes after."""
        self._check(action, env_id)
        return self._call("send", handle, action, env_id)[0]

    def recv(self, handle: Any) -> tuple[Any, dict[str, Any]]:
        """Waits for environments; the handle for what comes after, and what they show by name."""
        return self._named(self._call("recv", handle))

    def step(self, handle: Any, action: Any, env_id: Any) -> tuple[Any, dict[str, Any]]:
        """`send`, then `recv`."""
        self._check(action, env_id)
        return self._named(self._call("step", handle, action, env_id))

    def _check(self, action: Any, env_id: Any) -> None:
        wanted = (len(env_id), *(self._envs.spec.action_space.shape or ()))
        if action.shape != wanted:
            raise ValueError(f"action has shape {action.shape}, but {wanted} is needed")

    def _named(self, results: list[Any]) -> tuple[Any, dict[str, Any]]:
        return results[0], dict(zip(self._names, results[1:], strict=True))

    def _call(self, name: str, handle: Any, *orders: Any) -> list[Any]:
        results = [self._passed, *([] if name == "send" else self._shown)]
        given = (jnp.asarray(handle), *orders)
        if self._called_back:
            # Not `ordered`: the handle has put them in order, and the token of an ordered callback that fails where
            # programs are not waited for would go into every program after it.
            return list(io_callback(functools.partial(self._by_callback, name), results, *given))
        call = jax.ffi.ffi_call(f"warp_rl_{name}", results, has_side_effect=True)
        return list(call(*given, pool=self._number))

    def _by_callback(self, name: str, handle: Any, *orders: Any) -> list[Any]:
        """What the custom call of this name does."""
        if name != "recv":
            self._envs._pool.send(*map(np.asarray, orders))
        return [np.asarray(handle), *([] if name == "send" else self._received())]

    def _received(self) -> list[Any]:
        obs, reward, terminated, truncated, info = self._envs._pool.recv()
        if len(reward) != self._rows:
            raise ValueError(f"{len(reward)} environments were sent, but a program receives {self._rows}")
        named = {**info, "obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        return [named[name] for name in self._names]


def functions(envs: Core) -> tuple[Any, Any, Any, Any]:
    """A handle, `recv(handle)`, `send(handle, action, env_id=None)` and `step(handle, action, env_id=None)`."""
    backend = jax.default_backend()
    if backend == "gpu":
        warnings.warn(
            "loops that JAX compiles for a GPU (scan, fori_loop, while_loop) have given wrong results with these "
            "calls; compile loops for the processor, or compile single steps",
            stacklevel=3,
        )
    calls = Calls(envs, called_back=backend != "cpu")

    def answer(handle: Any, shown: dict[str, Any]) -> tuple[Any, Any]:
        first = [shown.pop(key) for key in ("obs", "reward", "terminated", "truncated")]
        return handle, envs._as_answer(*first, shown, jnp)

    def recv(handle: Any) -> tuple[Any, Any]:
        return answer(*calls.recv(handle))

    def send(handle: Any, action: Any, env_id: Any = None) -> Any:
        return calls.send(handle, *envs._as_orders(action, env_id, jnp))

    def step(handle: Any, action: Any, env_id: Any = None) -> tuple[Any, Any]:
        return answer(*calls.step(handle, *envs._as_orders(action, env_id, jnp)))

    return calls.handle, recv, send, step

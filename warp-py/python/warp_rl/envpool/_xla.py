"""Environments in functions that JAX compiles: `xla()`, as EnvPool has it.

On the processor `send` and `recv` are custom calls of XLA's, in which neither Python nor JAX's callbacks have a part;
on a GPU they are callbacks of JAX's, which copies actions down and answers up. What one is given and hands on, the
handle, is what keeps them in order.
"""

from __future__ import annotations

import functools
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
    """`send` and `recv` of environments, as functions that JAX can trace."""

    def __init__(self, envs: Core) -> None:
        _register()
        self._envs = envs
        #: Custom calls are the processor's; programs of other devices call back.
        self._on_cpu = jax.default_backend() == "cpu"
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
        wanted = (len(env_id), *(self._envs.spec.action_space.shape or ()))
        if action.shape != wanted:
            raise ValueError(f"action has shape {action.shape}, but {wanted} is needed")
        send = self._send_by_call if self._on_cpu else self._send_by_callback
        return send(jnp.asarray(handle), action, env_id)

    def recv(self, handle: Any) -> tuple[Any, dict[str, Any]]:
        """Waits for environments; the handle for what comes after, and what they show by name."""
        recv = self._recv_by_call if self._on_cpu else self._recv_by_callback
        shown = recv(jnp.asarray(handle))
        return shown[0], dict(zip(self._names, shown[1:], strict=True))

    def _send_by_call(self, *given: Any) -> Any:
        call = jax.ffi.ffi_call("warp_rl_send", self._passed, has_side_effect=True)
        return call(*given, pool=self._number)

    def _recv_by_call(self, handle: Any) -> list[Any]:
        call = jax.ffi.ffi_call("warp_rl_recv", [self._passed, *self._shown], has_side_effect=True)
        return list(call(handle, pool=self._number))

    def _send_by_callback(self, *given: Any) -> Any:
        def send(handle: Any, action: Any, env_id: Any) -> Any:
            self._envs._pool.send(np.asarray(action), np.asarray(env_id))
            return np.asarray(handle)

        return io_callback(send, self._passed, *given, ordered=True)

    def _recv_by_callback(self, handle: Any) -> list[Any]:
        def recv(handle: Any) -> list[Any]:
            obs, reward, terminated, truncated, info = self._envs._pool.recv()
            if len(reward) != self._rows:
                raise ValueError(f"{len(reward)} environments were sent, but a program receives {self._rows}")
            named = {**info, "obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
            return [np.asarray(handle), *(named[name] for name in self._names)]

        return list(io_callback(recv, [self._passed, *self._shown], handle, ordered=True))


def functions(envs: Core) -> tuple[Any, Any, Any, Any]:
    """A handle, `recv(handle)`, `send(handle, action, env_id=None)` and `step(handle, action, env_id=None)`."""
    calls = Calls(envs)

    def recv(handle: Any) -> tuple[Any, Any]:
        handle, shown = calls.recv(handle)
        answer = [shown.pop(key) for key in ("obs", "reward", "terminated", "truncated")]
        return handle, envs._as_answer(*answer, shown, jnp)

    def send(handle: Any, action: Any, env_id: Any = None) -> Any:
        return calls.send(handle, *envs._as_orders(action, env_id, jnp))

    def step(handle: Any, action: Any, env_id: Any = None) -> tuple[Any, Any]:
        return recv(send(handle, action, env_id))

    return calls.handle, recv, send, step

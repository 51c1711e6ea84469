"""Calls of XLA's that move environments within programs that JAX compiles.

`warp_rl.envpool` makes them for environments on the processor, `functions` for those on a GPU. What a call is given
and hands on, the handle, is an array like others: a call that takes what another hands on comes after it, whatever
XLA makes of a program.

In programs for a GPU calls whose results are rows of an array that a loop fills (`ys` of a scan) have given what a call
too many gives: rows of another step, or "no environment is in flight" behind `send`. Callbacks of JAX's have, too. Which
of XLA's passes does that is not known; with an operation between call and array, which `_apart` puts there for
arguments as well, loops have equalled their twins.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _native

if TYPE_CHECKING:
    from ._cuda import CudaVectorEnv


@functools.cache
def _register() -> None:
    for platform, targets in _native.xla_targets().items():
        for name, target in targets.items():
            jax.ffi.register_ffi_target(name, target, platform=platform)


class Calls:
    """The calls of a pool, whose names begin with `prefix`; `shown` is what it answers with, arrays by name."""

    def __init__(self, pool: Any, prefix: str, shown: dict[str, jax.ShapeDtypeStruct]) -> None:
        _register()
        number = _native.xla_number(pool)
        self._number = np.int64(number)
        self._prefix = prefix
        self._shown = shown
        #: What is handed from call to call: eight bytes, as EnvPool's.
        self.handle = np.frombuffer(np.int64(number).tobytes(), np.uint8)

    def send(self, handle: Any, *orders: Any) -> Any:
        """Sends environments off; the handle for what comes after."""
        return self._call("send", handle, *orders)[0]

    def recv(self, handle: Any) -> tuple[Any, dict[str, Any]]:
        """Waits for environments; the handle for what comes after, and what they show by name."""
        return self._named(self._call("recv", handle))

    def step(self, handle: Any, *orders: Any) -> tuple[Any, dict[str, Any]]:
        """`send`, then `recv`, as one call: nothing comes between its halves."""
        return self._named(self._call("step", handle, *orders))

    def _named(self, results: list[Any]) -> tuple[Any, dict[str, Any]]:
        return results[0], dict(zip(self._shown, results[1:], strict=True))

    def _call(self, name: str, handle: Any, *orders: Any) -> list[Any]:
        passed = jax.ShapeDtypeStruct((8,), np.uint8)
        results = [passed, *([] if name == "send" else self._shown.values())]
        call = jax.ffi.ffi_call(f"{self._prefix}{name}", results, has_side_effect=True)
        handle = jnp.asarray(handle)
        handle, *shown = call(handle, *_apart(handle, orders), pool=self._number)
        return [handle, *_apart(handle, shown)]


def _apart(handle: Any, arrays: Any) -> Any:
    """The arrays as they are, by an operation that XLA can't leave out on a GPU: it does not know the handle."""

    def chosen(handle: Any, *arrays: Any) -> tuple[Any, ...]:
        # The number of a pool has fewer than 56 bits.
        return tuple(jnp.where(handle[7] == 0, array, jnp.zeros_like(array)) for array in arrays)

    arrays = [jnp.asarray(array) for array in arrays]
    return jax.lax.platform_dependent(handle, *arrays, cpu=lambda _, *arrays: arrays, default=chosen)


def as_int32(array: jax.Array) -> jax.Array:
    """Numbers as int32, rounded towards 0; -1, which no environment takes, for those that int32 does not have."""
    if array.dtype == np.int32:
        return array
    made = array.astype(np.int32)
    # Infinite ones are not smaller, and what is not a number is not either.
    fits = jnp.abs(array) < 2.0**31 if array.dtype.kind == "f" else made.astype(array.dtype) == array
    return jnp.where(fits, made, -1)


def functions(envs: CudaVectorEnv) -> tuple[Any, Any, Any, Any]:
    """A handle, `recv(handle)`, `send(handle, actions)` and `step(handle, actions)` of environments on a GPU."""
    shown, wide = {}, set()
    for name, dtype, shape in envs._pool.xla_shown():
        if dtype == "int64":
            # Two words each, the lower one first: JAX has 64 bits only if it is told so.
            wide.add(name)
            dtype, shape = "int32", [*shape, 2]
        shown[name] = jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype))
    calls = Calls(envs._pool, "warp_rl_device_", shown)
    discrete = envs.single_action_space.dtype.kind in "iu"  # type: ignore[union-attr]
    wanted = (envs.num_envs, *(envs.single_action_space.shape or ()))

    def orders(actions: Any) -> Any:
        given = jnp.asarray(actions)
        if given.shape != wanted:
            raise ValueError(f"actions has shape {given.shape}, but {wanted} is needed")
        if discrete and given.dtype.kind not in "iu":
            raise TypeError(f"actions has dtype {given.dtype}, but integers are needed")
        return as_int32(given) if discrete else given.astype(np.float32)

    def answer(handle: Any, named: dict[str, Any]) -> tuple[Any, Any]:
        named = {name: array[..., 0] if name in wide else array for name, array in named.items()}
        first = [named.pop(key) for key in ("obs", "reward", "terminated", "truncated")]
        return handle, (*first, named)

    def recv(handle: Any) -> tuple[Any, Any]:
        return answer(*calls.recv(handle))

    def send(handle: Any, actions: Any) -> Any:
        return calls.send(handle, orders(actions))

    def step(handle: Any, actions: Any) -> tuple[Any, Any]:
        return answer(*calls.step(handle, orders(actions)))

    return calls.handle, recv, send, step

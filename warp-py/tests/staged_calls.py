"""Calls as XLA makes them from programs on a GPU, without XLA and a GPU: frames made by hand, and a driver whose GPU is
the host (`driver_of_the_host.c`, the first libcuda.so that is found). Ends with an AssertionError unless environments
move as their twin does. `test_xla_staged.py` runs it.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from warp_rl import _native, envpool

SIZED = [("size", c.c_size_t), ("extension", c.c_void_p)]
STREAM, CONTEXT, ERROR = 0x57, 0x77, 0xE0
#: XLA's numbers of types.
TYPES = {"bool": 1, "int8": 2, "int32": 4, "int64": 5, "uint8": 6, "float32": 11}


class Version(c.Structure):
    _fields_ = [*SIZED, ("major", c.c_int), ("minor", c.c_int)]


class CreateError(c.Structure):
    _fields_ = [*SIZED, ("message", c.c_char_p), ("code", c.c_int)]


class DestroyError(c.Structure):
    _fields_ = [*SIZED, ("error", c.c_void_p)]


class GetStream(c.Structure):
    _fields_ = [*SIZED, ("context", c.c_void_p), ("stream", c.c_void_p)]


CREATE = c.CFUNCTYPE(c.c_void_p, c.POINTER(CreateError))
DESTROY = c.CFUNCTYPE(None, c.POINTER(DestroyError))
GET = c.CFUNCTYPE(c.c_void_p, c.POINTER(GetStream))


class Api(c.Structure):
    _fields_ = [
        *SIZED,
        ("version", Version),
        ("internal", c.c_void_p),
        ("create_error", CREATE),
        ("message_of_error", c.c_void_p),
        ("destroy_error", DESTROY),
        ("register", c.c_void_p),
        ("stream", GET),
        ("more", c.c_void_p * 14),
    ]


class Buffer(c.Structure):
    _fields_ = [*SIZED, ("dtype", c.c_int), ("data", c.c_void_p), ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64))]


class Values(c.Structure):
    _fields_ = [*SIZED, ("n", c.c_int64), ("types", c.POINTER(c.c_int)), ("each", c.POINTER(c.c_void_p))]


class Span(c.Structure):
    _fields_ = [("start", c.c_char_p), ("length", c.c_size_t)]


class Scalar(c.Structure):
    _fields_ = [("dtype", c.c_int), ("value", c.POINTER(c.c_int64))]


class Attributes(c.Structure):
    _fields_ = [
        *SIZED,
        ("n", c.c_int64),
        ("types", c.POINTER(c.c_int)),
        ("names", c.POINTER(c.POINTER(Span))),
        ("each", c.POINTER(c.POINTER(Scalar))),
    ]


class Frame(c.Structure):
    _fields_ = [
        *SIZED,
        ("api", c.POINTER(Api)),
        ("context", c.c_void_p),
        ("stage", c.c_int),
        ("args", Values),
        ("rets", Values),
        ("attributes", Attributes),
        ("future", c.c_void_p),
    ]


def sized(kind: Any, *values: Any) -> Any:
    return kind(c.sizeof(kind), None, *values)


class Xla:
    """XLA's side: what calls are given, and what was said of them."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.destroyed: list[int] = []
        self.has_stream = True
        self.api = sized(Api, sized(Version, 0, 4), None, CREATE(self._create), None, DESTROY(self._destroy), None, GET(self._get))

    def _create(self, asked: Any) -> int:
        self.said.append(asked[0].message.decode())
        return ERROR

    def _destroy(self, asked: Any) -> None:
        self.destroyed.append(asked[0].error)

    def _get(self, asked: Any) -> int | None:
        assert asked[0].size == c.sizeof(GetStream) and asked[0].context == CONTEXT
        if not self.has_stream:
            return ERROR + 1
        asked[0].stream = STREAM
        return None

    def call(self, capsule: Any, arguments: list[np.ndarray], results: list[np.ndarray], pool: int) -> str | None:
        """What is said of a call that fails."""
        get = c.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
        handler = c.CFUNCTYPE(c.c_void_p, c.POINTER(Frame))(get(capsule, None))
        kept: list[Any] = []
        number, name = Scalar(TYPES["int64"], c.pointer(c.c_int64(pool))), Span(b"pool", 4)
        attributes = sized(
            Attributes, 1, (c.c_int * 1)(3), (c.POINTER(Span) * 1)(c.pointer(name)), (c.POINTER(Scalar) * 1)(c.pointer(number))
        )
        frame = sized(
            Frame, c.pointer(self.api), CONTEXT, 3, values(arguments, kept), values(results, kept), attributes, None
        )
        return self.said[-1] if handler(c.byref(frame)) else None


def values(arrays: list[np.ndarray], kept: list[Any]) -> Any:
    each = (c.c_void_p * len(arrays))()
    for i, array in enumerate(arrays):
        dims = (c.c_int64 * max(1, array.ndim))(*array.shape)
        buffer = sized(Buffer, TYPES[str(array.dtype)], array.ctypes.data, array.ndim, dims)
        kept.append((dims, buffer))
        each[i] = c.addressof(buffer)
    return sized(Values, len(arrays), (c.c_int * len(arrays))(*[1] * len(arrays)), each)


def main() -> None:
    xla, driver, on_gpu = Xla(), c.CDLL("libcuda.so"), _native.xla_targets()["CUDA"]
    envs, twin = (envpool.make_gymnasium("CartPole-v1", num_envs=5, seed=1) for _ in range(2))
    pool, shown = _native.xla_number(envs._pool), envs._pool.xla_shown()
    handle, ids = np.arange(8, dtype=np.uint8), np.arange(5, dtype=np.int32)

    def call(name: str, *arguments: Any, of: int = pool) -> tuple[str | None, np.ndarray, dict[str, np.ndarray]]:
        passed, arrays = np.full(8, 9, np.uint8), {key: np.full((5, *item), 1, dtype) for key, dtype, item in shown}
        results = [passed, *([] if name == "send" else arrays.values())]
        return xla.call(on_gpu[f"warp_rl_{name}"], [handle, *arguments], results, of), passed, arrays

    def same(answer: Any, wanted: Any) -> None:
        failure, passed, arrays = answer
        assert failure is None and (passed == handle).all(), failure
        obs, reward, terminated, truncated, info = wanted
        wanted = {**info, "obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        assert all((wanted[key] == array).all() for key, array in arrays.items())

    envs.async_reset(), twin.async_reset()
    same(call("recv"), twin.recv())
    for step in range(100):
        action = ((ids + step) % 2).astype(np.int32)
        if step % 2:
            failure, passed, _ = call("send", action, ids)
            assert failure is None and (passed == handle).all()
        same(call("recv") if step % 2 else call("step", action, ids), twin.step(action))
    used = c.c_int.in_dll(driver, "pinned_ever").value
    assert 1 <= used <= 2, f"{used} pieces of memory for calls that came one after another"

    assert "no environment is in flight" in call("recv")[0]
    assert "actions hold 7" in call("step", np.full(5, 7, np.int32), ids)[0]
    assert "env_id holds 5" in call("step", action, ids + 5)[0]
    assert "no longer exist" in call("recv", of=pool + 100)[0]
    assert not xla.destroyed
    xla.has_stream = False
    assert call("step", action, ids)[0] == "XLA has no stream for a call" and xla.destroyed == [ERROR + 1]
    xla.has_stream = True
    same(call("step", action, ids), twin.step(action))
    assert c.c_int.in_dll(driver, "contexts_entered").value == 0
    alive = [c.c_int.in_dll(driver, name).value for name in ("pinned_alive", "events_alive")]
    assert alive[0] == alive[1] <= 2, alive


if __name__ == "__main__":
    main()

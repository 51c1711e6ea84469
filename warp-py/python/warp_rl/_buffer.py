"""Memory of environments that other libraries look at without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: Whether NumPy's arrays make capsules with a version, which 2.0's do not.
_HAS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


class Buffer:
    """An array of all environments at an address that never changes, and that outlives them.

    It speaks the array interface of NumPy's and DLPack, on the processor.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, the environments first."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of its elements."""
        return self._array.dtype

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._array.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        """The processor."""
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule over the memory.

        Raises BufferError for a stream or another device, of which the processor knows none.
        """
        if stream is not None:
            raise BufferError(f"stream is {stream!r}, but there are no streams on the processor")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"dl_device is {dl_device!r}, but the memory is the processor's, (1, 0)")
        if not _HAS_VERSIONS:
            return (self._array.copy() if copy else self._array).__dlpack__()
        return self._array.__dlpack__(max_version=max_version, copy=copy)

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"Buffer(shape={self.shape}, dtype={self.dtype})"


def of_each(arrays: Any, work: Callable[[Any], Any]) -> Any:
    """What `work` makes of an array, or of each in a dictionary by group."""
    if isinstance(arrays, dict):
        return {key: of_each(array, work) for key, array in arrays.items()}
    return work(arrays)


def write_rows(to: Any, ids: Any, rows: Any) -> None:
    """Writes rows into those of `ids` of an array, or of each in a dictionary by group."""
    if isinstance(to, dict):
        for key, array in to.items():
            write_rows(array, ids, rows[key])
    else:
        to[ids] = rows


def as_output(array: np.ndarray, output: str) -> Any:
    """An array as `output` says: as it is, a tensor of torch over its memory, or a buffer."""
    if output == "numpy":
        return array
    if output == "torch":
        import torch

        return torch.from_numpy(array)
    return Buffer(array)

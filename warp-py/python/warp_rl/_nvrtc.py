"""Where NVIDIA's run-time compiler lies, which makes kernels of the environments' text."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path


def load_nvrtc() -> None:
    """Loads NVIDIA's run-time compiler where its Python package has put it, which no loader searches."""
    try:
        import nvidia
    except ImportError:
        return
    for folder in nvidia.__path__:
        for library in sorted(Path(folder).glob("*/lib/libnvrtc.so.1[1-9]")):
            # What can't be loaded is looked for again, and said, by the native module.
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(library))
                return

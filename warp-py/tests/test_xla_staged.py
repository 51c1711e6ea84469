"""What a program on a GPU does with environments on the processor, where there is neither a GPU nor JAX."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warp_rl import _native

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(_native, "CudaPool"), reason="warp_rl was built without the feature cuda")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_calls_from_a_gpu_go_through_the_host(tmp_path):
    library = tmp_path / "libcuda.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "driver_of_the_host.c"], check=True)
    path = os.pathsep.join([str(tmp_path), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, HERE / "staged_calls.py"], env={**os.environ, "LD_LIBRARY_PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""The notebooks, from top to bottom, each in a process of its own; what needs more GPUs than there are is skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import warp_rl

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def gpus() -> int:
    """How many can be used."""
    for n in range(2):
        try:
            warp_rl.make("CartPole-v1", device=f"cuda:{n}").close()
        except (ValueError, RuntimeError):
            return n
    return 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path):
    said = json.loads(notebook.read_text())
    needed = said["metadata"]["warp_rl"]["gpus"]
    if needed > (there := gpus() if needed else 0):
        pytest.skip(f"{notebook.stem} needs {needed} GPUs, and {there} can be used")
    cells = ["".join(cell["source"]) for cell in said["cells"] if cell["cell_type"] == "code"]
    assert cells and all(not cell.get("outputs") for cell in said["cells"]), "notebooks are kept without outputs"
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join(cells))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 4

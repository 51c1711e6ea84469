"""The `warp` command: `python -m warp_rl train cartpole`."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> None:
    """Runs the command line of this process and ends it."""
    # The command takes Ctrl-C itself, saves what there is, and ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise SystemExit(_native.command(sys.argv[1:]))


if __name__ == "__main__":
    main()

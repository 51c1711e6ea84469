"""One environment by itself: Gymnasium's `Env`."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium
import numpy as np

from . import _rendering, _seeds
from ._checks import one_of, shown
from ._pooled import Pickled
from ._spec import EnvSpec
from ._tasks import find

#: Longer than any episode: `gymnasium.make` cuts them itself.
_NO_LIMIT = 2**31 - 1


class SingleEnv(Pickled, gymnasium.Env):
    """One environment of a task, as `gymnasium.make("warp_rl/...")` makes it.

    It has no time limit of its own unless `max_episode_steps` is given: Gymnasium puts its `TimeLimit` around.
    """

    metadata = {"render_modes": list(_rendering.MODES)}

    def __init__(
        self,
        task_id: str,
        *,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **config: Any,
    ) -> None:
        task = find(task_id)
        one_of("render_mode", render_mode, None, *_rendering.MODES)
        described = EnvSpec(task_id, **config)
        described.check_lone()
        self.metadata = _rendering.metadata(task)
        self.render_mode = render_mode
        self._painter = None if render_mode is None else _rendering.Painter(task, config, 1)
        self.observation_space = described.observation_space
        self.action_space = described.action_space
        self._numbered = isinstance(self.observation_space, gymnasium.spaces.Discrete)
        self._open_alone(task, None, config, max_episode_steps or _NO_LIMIT, whole=task.whole)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; with a seed, draws begin anew. There are no options."""
        if options:
            raise ValueError(f"options is {shown(options)}, but no options are possible")
        if seed is not None:
            self.reseed(seed)
            seed = operator.index(seed)
        super().reset(seed=seed)
        obs, info = self._pool.reset()
        return self._row(obs), _first(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Moves by one step."""
        obs, reward, terminated, truncated, info = self._pool.step(np.asarray(action)[None])
        if self._painter is not None:
            self._painter.note(np.asarray(action)[None])
        return self._row(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), _first(info)

    def render(self) -> np.ndarray | None:
        """A picture, uint8 `[height, width, 3]`; None without a render_mode."""
        return None if self._painter is None else self._painter.pictures(self._pool.get_state())[0]

    def reseed(self, seed: int) -> None:
        """Lets draws begin anew from a seed, with the next reset."""
        self._pool.seed(_seeds.of_one(seed))

    def close(self) -> None:
        """Lets go of the environment."""
        self._pool.close()

    def _row(self, obs: Any) -> Any:
        return int(obs[0]) if self._numbered else obs[0]


def _first(info: dict[str, Any]) -> dict[str, Any]:
    """What is known of the only environment, without its number."""
    return {key: value[0] for key, value in info.items() if key != "env_id"}

"""Environments of several agents, stepped together: arrays by group of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from . import _native, _seeds, _spaces
from ._checks import count, one_of
from ._spec import EnvSpec, settings
from ._vector import checked_mask, mode_of


class MultiVectorEnv:
    """`num_envs` environments of several agents.

    Observations, rewards and actions are dictionaries by group: float32 `[num_envs, n_agents, width]`, float32
    `[num_envs, n_agents]`, and what the group's action space says with `[num_envs, n_agents]` before it. Flags
    are of whole environments. `info` has `env_id` and `elapsed_step`, and by group `action_mask`, `alive` (who
    acts in the next step) and `agent_terminated` (whose episode this step ended), where there are such.
    """

    def __init__(
        self,
        name: str,
        *,
        num_envs: int = 1,
        batch_size: int | None = None,
        num_threads: int = 0,
        thread_affinity_offset: int = -1,
        seed: int | Sequence[int] | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = "next_step",
        device: str = "cpu",
        copy: bool = True,
        output: str = "numpy",
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        one_of("device", device, "cpu")
        one_of("output", output, "numpy")
        one_of("render_mode", render_mode, None)
        self.num_envs = count("num_envs", num_envs)
        self.spec = EnvSpec(name, **config, max_episode_steps=max_episode_steps)
        self.autoreset_mode = mode_of(autoreset_mode)
        self.groups: dict[str, int] = {group["name"]: group["n_agents"] for group in self.spec.groups}
        said = {group["name"]: group for group in self.spec.groups}
        self.single_observation_spaces: dict[str, spaces.Space[Any]] = {
            name: _spaces.observation(group) for name, group in said.items()
        }
        self.single_action_spaces: dict[str, spaces.Space[Any]] = {
            name: _spaces.action(group) for name, group in said.items()
        }
        self._arguments = {
            "name": name,
            "num_envs": num_envs,
            "batch_size": batch_size,
            "num_threads": num_threads,
            "thread_affinity_offset": thread_affinity_offset,
            "max_episode_steps": max_episode_steps,
            "autoreset_mode": self.autoreset_mode.name.lower(),
            "copy": copy,
            **config,
        }
        self._pool = _native.Pool(
            self.spec.task.env,
            settings(self.spec.task, config),
            _seeds.of_each(seed, self.num_envs),
            num_threads=count("num_threads", num_threads, 0),
            first_core=None if thread_affinity_offset < 0 else thread_affinity_offset,
            autoreset_mode=self.autoreset_mode.name.lower(),
            max_episode_steps=self.spec.max_episode_steps,
            batch_size=None if batch_size is None else count("batch_size", batch_size),
            copy=bool(copy),
            by_group=True,
            with_masks=False,
        )

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begins an episode in every environment, or where `options["reset_mask"]` is true."""
        mask = None if options is None else options.get("reset_mask")
        seeds = None if seed is None else _seeds.of_each(seed, self.num_envs)
        if mask is None:
            if seeds is not None:
                self._pool.seed(seeds)
            return self._pool.reset()
        mask = checked_mask(mask, self.num_envs)
        if seeds is not None:
            chosen = np.flatnonzero(mask)
            self._pool.seed_some(chosen, [seeds[i] for i in chosen])
        return self._pool.reset_where(mask)

    def step(self, actions: dict[str, Any], env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves every environment, or those of `env_id`, whose rows the answer has in that order."""
        return self._with_final(self._pool.step(actions, env_id))

    def async_reset(self, env_id: Any = None) -> None:
        """Sends every environment, or those of `env_id`, off to begin an episode."""
        self._pool.async_reset(env_id)

    def send(self, actions: dict[str, Any], env_id: Any = None) -> None:
        """Sends environments off with their actions."""
        self._pool.send(actions, env_id)

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Waits for the `batch_size` environments that are finished first."""
        return self._with_final(self._pool.recv())

    def _with_final(self, answer: Any) -> Any:
        if self._pool.ended and self.autoreset_mode is AutoresetMode.SAME_STEP:
            obs, info = self._pool.last()
            answer[4]["final_obs"], answer[4]["final_info"] = obs, info
            answer[4]["_final_obs"] = answer[4]["_final_info"] = answer[2] | answer[3]
        return answer

    def get_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that the environments' futures depend on, by name."""
        return self._pool.get_state()

    def set_state(self, state: dict[str, Any], env_id: Any = None) -> None:
        """Puts back what `get_state` gave, or some of it."""
        self._pool.set_state(state, env_id)

    def close(self) -> None:
        """Lets go of the environments."""
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "state": self.get_state()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        arguments = dict(saved["arguments"])
        self.__init__(arguments.pop("name"), seed=0, **arguments)  # type: ignore[misc]
        self.set_state(saved["state"])

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        groups = ", ".join(f"{n} {name}" for name, n in self.groups.items())
        return f"MultiVectorEnv({self.spec.id}, num_envs={self.num_envs}: {groups})"


def make_multi(name: str, **kwargs: Any) -> MultiVectorEnv:
    """Environments of several agents, stepped together; arguments as `make` has them."""
    return MultiVectorEnv(name, **kwargs)

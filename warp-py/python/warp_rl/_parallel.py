"""One environment of several agents: PettingZoo's parallel interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv as PettingZooEnv

from . import _seeds, _spaces
from ._checks import one_of, shown
from ._pooled import Pickled
from ._spec import EnvSpec


class ParallelEnv(Pickled, PettingZooEnv):
    """Agents `<group>_<i>` act at once. One that is done leaves, and all leave at the end.

    Agents with masked choices observe `{"observation", "action_mask"}`; where an action has several choices,
    their masks are in their info instead, as `action_space(agent).sample(mask)` takes them.
    """

    def __init__(
        self,
        name: str,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **config: Any,
    ) -> None:
        one_of("render_mode", render_mode, None)
        self.spec = EnvSpec(name, **config, max_episode_steps=max_episode_steps)
        self.render_mode = render_mode
        self.metadata = {"name": self.spec.id, "render_modes": [], "is_parallelizable": True}
        self._places = {
            f"{group['name']}_{i}": (group["name"], i)
            for group in self.spec.groups
            for i in range(group["n_agents"])
        }
        self.possible_agents = list(self._places)
        self.agents: list[str] = []
        said = {group["name"]: group for group in self.spec.groups}
        self._actions = {name: _spaces.action(group) for name, group in said.items()}
        self._observations = {name: self._observation_of(group) for name, group in said.items()}
        # One space for each agent: they are sampled from, each with draws of its own.
        self.observation_spaces = {
            agent: self._observation_of(said[group]) for agent, (group, _) in self._places.items()
        }
        self.action_spaces = {agent: _spaces.action(said[group]) for agent, (group, _) in self._places.items()}
        self._open_alone(self.spec.task, seed, config, self.spec.max_episode_steps, by_group=True)
        self._idle = {
            name: np.zeros((1, group["n_agents"], *(self._actions[name].shape or ())), self._actions[name].dtype)
            for name, group in said.items()
        }
        width = sum(group["n_agents"] * group["width"] for group in self.spec.groups)
        self.state_space = spaces.Box(-np.inf, np.inf, (self.spec.global_width or width,), np.float32)
        self._seen: Any = None
        self._known: Any = None

    def _observation_of(self, group: dict[str, Any]) -> spaces.Space[Any]:
        seen = _spaces.observation(group)
        if not self._is_masked(group):
            return seen
        mask = spaces.Box(0, 1, (group["mask_width"],), np.int8)
        return spaces.Dict({"observation": seen, "action_mask": mask})

    @staticmethod
    def _is_masked(group: dict[str, Any]) -> bool:
        return group["mask_width"] > 0 and group["action"]["kind"] == "discrete"

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent sees; the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent may do; the same object each time."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begins an episode, with all agents."""
        if seed is not None:
            self._pool.seed(_seeds.of_one(seed))
        self._seen, self._known = self._pool.reset()
        self.agents = list(self.possible_agents)
        return self._observed(self.agents), self._informed(self.agents)

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Moves by one step: observations, rewards, two flags and infos of the agents that acted in it."""
        acting = self.agents
        if self._seen is None:
            raise RuntimeError("there is no episode before the first reset")
        if not isinstance(actions, Mapping):
            raise TypeError(f"actions is {shown(actions)}, but a dictionary by agent is needed")
        if not acting:
            return {}, {}, {}, {}, {}
        given = {name: idle.copy() for name, idle in self._idle.items()}
        for agent in acting:
            if agent not in actions:
                raise ValueError(f"actions lack the agent {agent!r}")
            group, i = self._places[agent]
            given[group][0, i] = self._checked(agent, actions[agent])
        for agent in actions:
            if agent not in acting:
                raise ValueError(f"actions have the agent {agent!r}, which is not in the game")
        self._seen, reward, terminated, truncated, self._known = self._pool.step(given)
        over, cut = bool(terminated[0]), bool(truncated[0])
        left = self._known.get("agent_terminated", {})

        def is_done(agent: str) -> bool:
            group, i = self._places[agent]
            return over or (group in left and bool(left[group][0, i]))

        terminations = {agent: is_done(agent) for agent in acting}
        truncations = {agent: cut and not terminations[agent] for agent in acting}
        rewards = {agent: float(reward[self._places[agent][0]][0, self._places[agent][1]]) for agent in acting}
        self.agents = [agent for agent in acting if not (terminations[agent] or truncations[agent])]
        return self._observed(acting), rewards, terminations, truncations, self._informed(acting)

    def _checked(self, agent: str, given: Any) -> np.ndarray:
        """The action of an agent: of its space's shape, for NumPy would repeat a single number; of real numbers at least."""
        action, idle = np.asarray(given), self._idle[self._places[agent][0]]
        kinds, named = ("iu", "whole") if idle.dtype.kind == "i" else ("iuf", "real")
        if action.dtype.kind not in kinds:
            raise TypeError(f"the action of {agent!r} is {shown(given)}, but {named} numbers are needed")
        if action.shape != idle.shape[2:]:
            raise ValueError(f"the action of {agent!r} has shape {action.shape}, but {idle.shape[2:]} is needed")
        return action

    def _observed(self, agents: list[str]) -> dict[str, Any]:
        masks = self._known.get("action_mask", {})
        seen = {}
        for agent in agents:
            group, i = self._places[agent]
            own = self._seen[group][0, i]
            if isinstance(self.observation_spaces[agent], spaces.Dict):
                own = {"observation": own, "action_mask": masks[group][0, i]}
            seen[agent] = own
        return seen

    def _informed(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        masks = self._known.get("action_mask", {})
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
        for agent in agents:
            group, i = self._places[agent]
            if group in masks and not isinstance(self.observation_spaces[agent], spaces.Dict):
                infos[agent]["action_mask"] = self._of_choices(group, masks[group][0, i])
        return infos

    def _of_choices(self, group: str, mask: np.ndarray) -> tuple[np.ndarray, ...]:
        """The mask of each choice of an action."""
        sizes = self._actions[group].nvec  # type: ignore[attr-defined]
        return tuple(np.split(mask, np.cumsum(sizes)[:-1]))

    def state(self) -> np.ndarray:
        """What a centralised critic sees; else what all agents see, one after another."""
        if self._seen is None:
            raise RuntimeError("there is no state before the first reset")
        if self.spec.global_width:
            return self._known["global_obs"][0]
        return np.concatenate([self._seen[group["name"]][0].reshape(-1) for group in self.spec.groups])

    def render(self) -> None:
        """Nothing: there is no render_mode."""

    def close(self) -> None:
        """Lets go of the environment."""
        self._pool.close()


def make_parallel(name: str, *, seed: int | None = None, render_mode: str | None = None, **config: Any) -> ParallelEnv:
    """One environment of several agents behind PettingZoo's parallel interface."""
    return ParallelEnv(name, seed=seed, render_mode=render_mode, **config)

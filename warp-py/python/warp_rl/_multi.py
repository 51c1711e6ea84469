"""Environments of several agents, stepped together: arrays by group of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _spaces
from ._checks import one_of
from ._pooled import Pooled
from ._spec import EnvSpec
from ._tasks import Task


class MultiVectorEnv(Pooled):
    """`num_envs` environments of several agents; spaces are dictionaries by group.

    Observations, rewards and actions are dictionaries by group: float32 `[num_envs, n_agents, width]`, float32
    `[num_envs, n_agents]`, and what the group's action space says with `[num_envs, n_agents]` before it. Flags
    are of whole environments. `info` has `env_id` and `elapsed_step`, and by group `action_mask`, `alive` (who
    acts in the next step) and `agent_terminated` (whose episode this step ended), where there are such.
    """

    @classmethod
    def _of_gpu(cls) -> type[MultiVectorEnv]:
        from ._cuda import CudaMultiVectorEnv

        return CudaMultiVectorEnv if cls is MultiVectorEnv else cls

    def _describe(self, described: EnvSpec, config: dict[str, Any], render_mode: str | None) -> None:
        one_of("render_mode", render_mode, None)
        self.spec = described
        self.autoreset_mode = self._mode
        self.groups: dict[str, int] = {group["name"]: group["n_agents"] for group in described.groups}
        self.metadata = {"autoreset_mode": self._mode, "render_modes": []}
        self.render_mode = None
        #: What each agent of a group sees, and may do.
        self.single_observation_space = spaces.Dict(
            {group["name"]: _spaces.observation(group) for group in described.groups}
        )
        self.single_action_space = spaces.Dict({group["name"]: _spaces.action(group) for group in described.groups})
        self.observation_space = self._of_all(self.single_observation_space)
        self.action_space = self._of_all(self.single_action_space)

    def _open(self, task: Task, seed: Any, config: dict[str, Any], limit: int | None) -> None:
        self._open_pool(task, seed, config, limit=limit, by_group=True, with_masks=False)

    def _of_all(self, single: spaces.Dict) -> spaces.Dict:
        """The space of all environments' agents of every group."""
        agents = {name: batch_space(space, self.groups[name]) for name, space in single.items()}
        return spaces.Dict({name: batch_space(space, self.num_envs) for name, space in agents.items()})

    def _add_final(self, ended: Any, obs: Any, last: dict[str, Any], info: dict[str, Any]) -> None:
        """What was seen where an episode has ended, by group; other rows mean nothing."""
        info["final_obs"], info["final_info"] = self._converted(obs), self._converted(last)
        info["_final_obs"] = info["_final_info"] = ended

    def render(self, env_id: Any = None) -> None:
        """Nothing: there is no render_mode."""

    def close(self) -> None:
        """Lets go of the environments."""
        self._pool.close()
        self.closed = True

    def __repr__(self) -> str:
        groups = ", ".join(f"{n} {name}" for name, n in self.groups.items())
        return f"MultiVectorEnv({self.spec.id}, num_envs={self.num_envs}: {groups})"


def make_multi(
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
    output: Literal["numpy", "torch", "dlpack"] = "numpy",
    render_mode: str | None = None,
    **config: Any,
) -> MultiVectorEnv:
    """Environments of several agents, stepped together; arguments as `make` has them."""
    return MultiVectorEnv(
        name,
        num_envs=num_envs,
        batch_size=batch_size,
        num_threads=num_threads,
        thread_affinity_offset=thread_affinity_offset,
        seed=seed,
        max_episode_steps=max_episode_steps,
        autoreset_mode=autoreset_mode,
        device=device,
        copy=copy,
        output=output,
        render_mode=render_mode,
        **config,
    )

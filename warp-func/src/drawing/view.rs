//! The state that a drawing may look at: the first replica of an environment, by names.

use crate::vec_env::VecEnv;
use warp_core::EnvSpec;
use warp_core::toml::{Table, Value};
use warp_data::Element;

/// The first replica and its configuration.
#[derive(Clone, Copy)]
pub struct View<'a> {
    envs: &'a dyn VecEnv,
    config: &'a Table,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("env", &self.spec().name).finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    /// The first replica of `envs`, made with the complete configuration `config`.
    #[must_use]
    pub fn new(envs: &'a dyn VecEnv, config: &'a Table) -> Self {
        Self { envs, config }
    }

    /// The environment's complete configuration.
    #[must_use]
    pub fn config(&self) -> &'a Table {
        self.config
    }

    /// What the environment looks like from outside.
    #[must_use]
    pub fn spec(&self) -> &'a EnvSpec {
        self.envs.spec()
    }

    /// The replica's part of an array; `None` where there is none of that name and type. Elements of a small
    /// array in the state are arrays of their own, such as `position[0]`.
    #[must_use]
    pub fn array<T: Element>(&self, name: &str) -> Option<&'a [T]> {
        let all = self.envs.store().get::<T>(name).ok()?;
        all.get(..all.len() / self.envs.options().n_envs)
    }

    /// The first number of an array, where it is finite.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f32> {
        self.array::<f32>(name)?.first().copied().filter(|x| x.is_finite())
    }

    /// A number of the configuration.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<f32> {
        match self.config.get(name)? {
            Value::Integer(number) => Some(*number as f32),
            Value::Float(number) => Some(*number as f32),
            _ => None,
        }
    }

    /// Steps since the episode began.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.array::<u32>("episode_length").and_then(|all| all.first().copied()).unwrap_or(0)
    }

    /// A group's return so far.
    #[must_use]
    pub fn group_return(&self, group: usize) -> f32 {
        let ids = &self.envs.ids().episode_return;
        ids.get(group)
            .and_then(|id| self.envs.store().slice::<f32>(*id).first().copied())
            .unwrap_or(0.0)
    }

    /// What the only agent of group `group` did in the last step, from -1 to 1: a box by its bounds,
    /// choices in equal steps. `None` before the first step, or if it is not known: not in its space.
    #[must_use]
    pub fn push(&self, group: &str) -> Option<f32> {
        use warp_core::Space;
        if self.step() == 0 {
            return None;
        }
        let spec = &self.spec().groups[self.spec().group_index(group)?];
        let name = format!("action.{group}");
        let (value, low, high) = match &spec.action {
            Space::Discrete { n } => {
                (*self.array::<i32>(&name)?.first()? as f32, 0.0, *n as f32 - 1.0)
            }
            Space::Box { low, high, .. } => {
                (*self.array::<f32>(&name)?.first()?, *low.first()?, *high.first()?)
            }
            _ => return None,
        };
        let choices = matches!(spec.action, Space::Discrete { .. });
        let push = 2.0 * (value - low) / (high - low) - 1.0;
        let known = push.is_finite() && (!choices || (-1.0..=1.0).contains(&push));
        known.then(|| push.clamp(-1.0, 1.0))
    }
}

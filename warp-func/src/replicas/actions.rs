//! Orders to some replicas: their actions, checked before any of them moves.

use crate::error::{Error, Result};
use crate::executor::actions::{check_finite, check_heads, in_range};
use warp_core::EnvSpec;
use warp_core::single::GroupAction;

/// Which replicas are stepped, and the actions of their agents.
#[derive(Debug, Clone, Default)]
pub struct Orders {
    /// Numbers of replicas, each at most once.
    pub ids: Vec<u32>,
    /// Actions by group, `[ids, n_agents, heads or elements]`. Those of replicas that begin an episode are
    /// not used.
    pub actions: Vec<GroupAction>,
}

/// Checks the actions of some replicas, by group and row, for those that will take theirs; of the others one
/// that would be refused is replaced.
pub(super) fn check_rows(
    spec: &EnvSpec,
    head_sizes: &[Vec<usize>],
    actions: &mut [GroupAction],
    ids: &[u32],
    takes: &dyn Fn(usize) -> bool,
) -> Result<()> {
    if actions.len() != spec.groups.len() {
        let (n, given) = (spec.groups.len(), actions.len());
        let reason = format!("actions of {n} groups are needed");
        return Err(Error::InvalidOption { option: "actions", value: given.to_string(), reason });
    }
    for ((group, sizes), actions) in spec.groups.iter().zip(head_sizes).zip(actions) {
        let width = group.n_agents * group.action.action_width();
        let (given, boxed) = match actions {
            GroupAction::Discrete(heads) => (heads.len(), false),
            GroupAction::Continuous(values) => (values.len(), true),
        };
        if given != width * ids.len() || boxed != sizes.is_empty() {
            let (n, name, space) = (ids.len(), &group.name, &group.action);
            let reason =
                format!("{n} x {} of {space} are needed for group \"{name}\"", group.n_agents);
            return Err(Error::InvalidOption {
                option: "actions",
                value: given.to_string(),
                reason,
            });
        }
        // Almost always all is well at the first look.
        match actions {
            GroupAction::Continuous(values) if check_finite(group, values).is_err() => {
                for (at, row) in values.chunks_exact_mut(width).enumerate() {
                    match check_finite(group, row) {
                        Err(error) if takes(at) => return Err(of_replica(error, ids[at])),
                        Err(_) => row.fill(0.0),
                        Ok(()) => {}
                    }
                }
            }
            GroupAction::Discrete(heads) if !in_range(heads, sizes) => {
                for (at, row) in heads.chunks_exact_mut(width).enumerate() {
                    match check_heads(group, sizes, row) {
                        Err(error) if takes(at) => return Err(of_replica(error, ids[at])),
                        Err(_) => row.fill(0),
                        Ok(()) => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The error of a row, as that of its replica.
fn of_replica(error: Error, id: u32) -> Error {
    match error {
        Error::InvalidAction { group, agent, head, action, space, .. } => {
            Error::InvalidAction { replica: id as usize, group, agent, head, action, space }
        }
        error => error,
    }
}

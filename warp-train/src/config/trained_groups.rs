//! Whose returns say how well a run learns.

use super::TrainConfig;

/// Groups of which a policy that learns acts for an agent; all, if none learns.
#[must_use]
pub fn trained_groups(config: &TrainConfig) -> Vec<bool> {
    let mut trained = vec![false; config.spec.groups.len()];
    for plan in config.policies.iter().filter(|plan| plan.config.to_train) {
        plan.groups().for_each(|group| trained[group] = true);
    }
    if !trained.contains(&true) {
        trained.fill(true);
    }
    trained
}

//! Which numbers of an environment were not finite when a policy failed: NaN of a reward would look like a loss
//! that diverged by itself.

use warp_func::VecEnv;

/// What the environment shows, or has given since its episodes began or to those that ended, that is infinite or
/// not a number, as a sentence; none: nothing of that is.
pub(super) fn found(envs: &mut dyn VecEnv) -> Option<String> {
    let ended = envs.take_episodes();
    let (store, ids, n_envs) = (envs.store(), envs.ids(), envs.options().n_envs);
    let first = |id| {
        let numbers = store.slice::<f32>(id);
        let at = numbers.iter().position(|number| !number.is_finite())?;
        Some((at / (numbers.len() / n_envs).max(1), numbers[at]))
    };
    let named = || envs.spec().groups.iter().map(|group| &group.name).enumerate();
    for (group, name) in named() {
        if let Some((replica, number)) = first(ids.obs[group]) {
            return Some(format!(
                "the environment's observations are not finite: group \"{name}\" of replica \
                 {replica} sees {number}"
            ));
        }
    }
    for (group, name) in named() {
        if let Some((replica, number)) = first(ids.episode_return[group]) {
            return Some(format!(
                "the environment's rewards are not finite: those of group \"{name}\" of replica \
                 {replica} sum to {number}"
            ));
        }
        let sum = ended.returns.get(group).map_or(0.0, |returns| returns.sum);
        if !sum.is_finite() {
            return Some(format!(
                "the environment's rewards are not finite: those of group \"{name}\" in episodes that \
                 ended sum to {sum}"
            ));
        }
    }
    None
}

//! Which runs count as independent ones: each seed of a setting once.

use super::setting::Setting;

/// What says whether two runs are the same training.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The configuration without its seed.
    pub setting: Setting,
    /// The seed.
    pub seed: u64,
    /// How far the run came, in whatever all of them count.
    pub length: f64,
}

/// Keeps of all runs with one seed of one setting the longest, of equal ones the first; with how many others there were.
pub fn independent<T>(runs: Vec<T>, identity: impl Fn(&T) -> &Identity) -> (Vec<T>, usize) {
    let (n, mut kept) = (runs.len(), Vec::<T>::new());
    for run in runs {
        let own = identity(&run);
        let is_same =
            |other: &Identity| own.seed == other.seed && own.setting.is_same(&other.setting);
        match kept.iter().position(|other| is_same(identity(other))) {
            Some(at) if own.length > identity(&kept[at]).length => kept[at] = run,
            Some(_) => {}
            None => kept.push(run),
        }
    }
    let n_copies = n - kept.len();
    (kept, n_copies)
}

/// What is said of runs that do not count.
#[must_use]
pub fn excluded(n_copies: usize) -> Option<String> {
    let runs = if n_copies == 1 { "1 run".into() } else { format!("{n_copies} runs") };
    (n_copies > 0).then(|| {
        format!("Excluded: {runs} with a seed that its setting has already; the longest counts.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_counts_once_and_the_longest_run_of_it() {
        let identity = |rate: &str, seed: u64, length: f64| {
            let registry = warp_envs::registry();
            let sets = [format!("learning_rate={rate}")];
            let config = crate::settings::configure("cartpole", &sets, &registry).unwrap();
            Identity { setting: Setting::new(&config, &registry).unwrap(), seed, length }
        };
        let runs = vec![
            identity("0.1", 0, 5.0),
            identity("0.2", 0, 5.0),
            identity("0.1", 0, 9.0),
            identity("0.1", 1, 5.0),
            identity("0.1", 1, 5.0),
        ];
        let (kept, n_copies) = independent(runs, |run| run);
        let found: Vec<_> = kept.iter().map(|run| (run.seed, run.length)).collect();
        assert_eq!((found, n_copies), (vec![(0, 9.0), (0, 5.0), (1, 5.0)], 2));
        assert!(excluded(2).unwrap().starts_with("Excluded: 2 runs"));
        assert_eq!(excluded(0), None);
    }
}

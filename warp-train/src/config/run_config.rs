//! The keys that apply to the whole run.

use warp_func::Start;

warp_core::config! {
    /// Keys that apply to the whole run.
    pub struct RunConfig {
        /// The environment's name.
        pub env_id: String = "cartpole".into(),
        /// Seed of all random numbers: same seed, same run.
        pub seed: u64 = 0,
        /// Environment replicas, which are stepped side by side.
        pub num_envs: usize = 64,
        /// Steps of every replica per iteration, that is, the length of a rollout.
        pub num_steps: usize = 64,
        /// Environment steps, summed over replicas, after which the run ends (rounded up to whole iterations).
        /// Percentages in schedules refer to it; nothing else depends on it.
        pub total_steps: u64 = 1_000_000,
        /// Start states of episodes: "fresh" samples one for every replica and episode, "fixed" uses the same for
        /// all, "pool" chooses a random row of a reset pool for every replica and episode.
        pub start: Start = Start::Fresh,
        /// Rows of the reset pool if start is "pool", at least 1; they are generated from the seed.
        pub pool_size: Option<usize> = None,
        /// File with the reset pool instead: an .npz with an array [rows, ...] per field of the state.
        pub pool_file: Option<String> = None,
        /// SHA-256 of pool_file, written by the program: a file that has changed since is refused.
        pub pool_digest: Option<String> = None,
        /// Environment steps between checkpoints (rounded up to whole iterations); 0: only at the end. By default
        /// 100,000, 20 iterations or a hundredth of total_steps, whichever is most.
        pub checkpoint_steps: Option<u64> = None,
        /// Number of parts into which the replicas are divided; a minibatch takes equally many samples from each.
        /// This makes minibatches independent of the number of ranks, which must divide it. By default the number of
        /// ranks on which the run begins.
        pub shards: Option<usize> = None,
        /// Number of newest checkpoints to keep; older ones are deleted.
        pub keep_checkpoints: usize = 1,
        /// Number of further checkpoints to keep: those whose evaluation had the highest mean return, the earlier one
        /// if equal. 0: none.
        pub keep_best_checkpoints: usize = 1,
        /// Environment steps between evaluations on separate replicas (rounded up to whole iterations); 0: none.
        /// Training does not depend on them.
        pub eval_steps: u64 = 0,
        /// Episodes of an evaluation, at least 1: greedy, from the same start states each time.
        pub eval_episodes: usize = 20,
        /// Steps of an episode in an evaluation at most, at least 1: one that has not ended by then counts as it is, and
        /// the evaluation says how many did not end. By default 100,000, or the environment's time limit if that is
        /// longer.
        pub eval_max_steps: Option<u32> = None,
        /// Mean return of an evaluation at which the run stops; not set: it continues to total_steps.
        pub stop_at_return: Option<f64> = None,
        /// Iterations between lines of metrics.jsonl, at least 1; a line summarises all since the last one.
        pub log_interval: u64 = 1,
        /// Arrays of the environments to record during training: fields of the state and others that warp episode has,
        /// such as obs.GROUP. RUN/arrays/STEP.npz contains their values at the end of an iteration, for actions,
        /// rewards and ends of episodes those of its last step (on the CPU only). For every step of an episode:
        /// warp episode.
        pub log_arrays: Vec<String> = Vec::new(),
        /// Replicas of which these arrays are recorded, from 0.
        pub log_replicas: Vec<usize> = vec![0],
        /// Environment steps between these records (rounded up to whole iterations), at least 1; the last iteration
        /// of the run is recorded, too.
        pub log_array_steps: u64 = 100_000,
        /// Folder in which the run's own folder is created, unless --out gives one.
        pub basedir: String = "runs".into(),
        /// Folder within basedir, for runs that belong together.
        pub tag: Option<String> = None,
    }
}

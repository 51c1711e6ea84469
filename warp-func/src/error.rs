//! Errors when environments are built or stepped; one sentence each, values included.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An environment refuses its configuration or breaks the contract.
    #[error(transparent)]
    Core(#[from] warp_core::Error),
    /// An array does not exist, does not fit, or needs more memory than is free.
    #[error(transparent)]
    Data(#[from] warp_data::Error),
    /// No environment has this name.
    #[error("there is no environment \"{name}\"; there are {known}{}", nearest.as_ref().map_or(String::new(), |n| format!("; did you mean \"{n}\"?")))]
    UnknownEnv {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
        /// The name that is spelled most alike.
        nearest: Option<String>,
    },
    /// An option of the executor that is out of range.
    #[error("{option} = {value}: {reason}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An action outside its space.
    #[error(
        "replica {replica}, group \"{group}\", agent {agent}, head {head}: action {action} is not in {space}"
    )]
    InvalidAction {
        /// The replica.
        replica: usize,
        /// The group.
        group: String,
        /// The agent within its group.
        agent: usize,
        /// The head or element.
        head: usize,
        /// The action.
        action: String,
        /// The head's space.
        space: String,
    },
    /// A step of a replica whose episode has ended, where none begins by itself.
    #[error(
        "the episode of environment {replica} has ended: it has to be reset before it is stepped"
    )]
    Ended {
        /// The replica.
        replica: usize,
    },
    /// Replicas that others have been put in the place of.
    #[error(
        "these are other replicas than at the beginning: they may be changed, but not exchanged"
    )]
    Exchanged,
    /// A replica that was sent and is to be moved or changed before it is received.
    #[error("environment {replica} is in flight: it was sent and has not been received")]
    UnderWay {
        /// The replica.
        replica: usize,
    },
    /// More replicas are to be received than were sent.
    #[error(
        "{wanted} environments are to be received, but only {under_way} are in flight: send more \
         first"
    )]
    TooFewUnderWay {
        /// How many are asked for.
        wanted: usize,
        /// How many were sent and not yet received.
        under_way: usize,
    },
    /// A body that panicked on a thread of its own.
    #[error(
        "a step of an environment has panicked; the environments that it was stepping are lost"
    )]
    Panicked,
    /// A reset pool that contradicts itself or does not fit the environment.
    #[error("the reset pool does not fit: {reason}")]
    InvalidPool {
        /// What does not fit.
        reason: String,
    },
    /// NVRTC, which compiles CUDA code, is not installed.
    #[error(
        "NVRTC is not installed: {searched}; put its folder into LD_LIBRARY_PATH, or use --device cpu"
    )]
    NoNvrtc {
        /// The file names that were looked for, and where.
        searched: String,
    },
    /// CUDA code that does not compile.
    #[error("{name} does not compile:\n{log}")]
    Compile {
        /// The file.
        name: String,
        /// What the compiler says.
        log: String,
    },
    /// A kernel that can't be launched so.
    #[error("kernel \"{kernel}\": {reason}")]
    Launch {
        /// Its name.
        kernel: String,
        /// What does not fit.
        reason: String,
    },
    /// An environment without a CUDA body.
    #[error("environment \"{env}\" has no CUDA code: use --device cpu")]
    NoBody {
        /// Its name.
        env: String,
    },
    /// A simulator without a body, where one is needed.
    #[error(
        "environment \"{env}\" is a simulator of its own, not an Env: it can't be compared, \
         checked, run on a GPU or used to generate start states; use --device cpu and no reset \
         pool"
    )]
    Foreign {
        /// Its name.
        env: String,
    },
    /// A CUDA body that can't be run on the host.
    #[error("environment \"{env}\" on the host: {reason}")]
    Host {
        /// The environment's name.
        env: String,
        /// What went wrong.
        reason: String,
    },
    /// An executor that breaks the contract, found by [`crate::check_vec_env`].
    #[error("environment \"{env}\" breaks the contract: {reason}")]
    NonConforming {
        /// The environment's name.
        env: String,
        /// What was seen.
        reason: String,
    },
}

//! Simulators that are not written as an `Env`: whatever steps many replicas, here or in another process.

use super::kind::Kind;
use crate::blueprint::Blueprint;
use crate::drawing::Drawing;
use crate::error::{Error, Result};
#[cfg(feature = "replicas")]
use crate::replicas::{ReplicaOptions, Replicas};
use crate::vec_env::{ArrayIds, Start, VecEnv, VecOptions};
use warp_core::toml::Table;
use warp_core::{Config, EnvSpec};
use warp_data::ArrayId;

/// Makes a [`VecEnv`] of its own from a configuration; see [`Registry::with_maker`].
///
/// [`Registry::with_maker`]: crate::Registry::with_maker
pub trait Maker: Send + Sync + 'static {
    /// What a user sets, under `env.`, declared with `warp_core::config!`.
    type Config: Config;

    /// One replica seen from outside; its name is what the maker is registered under.
    ///
    /// # Errors
    /// A value out of range.
    fn spec(&self, config: &Self::Config) -> Result<EnvSpec>;

    /// Replicas at the start of their first episodes, with the spec of [`Maker::spec`], its arrays
    /// ([`ArrayIds::declare`]) and these `options`; never asked for a reset pool.
    ///
    /// # Errors
    /// As [`Maker::spec`], options that it has no way to follow, or whatever else is in the way.
    fn make(&self, config: &Self::Config, options: &VecOptions) -> Result<Box<dyn VecEnv>>;

    /// Replicas as [`Maker::make`] makes them, but on the GPU whose kernels these are, such as `cuda::SteppedEnvs`;
    /// none: it makes them on the host alone.
    ///
    /// # Errors
    /// As [`Maker::make`].
    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        _config: &Self::Config,
        _options: &VecOptions,
        _kernels: &crate::cuda::Kernels,
    ) -> Result<Option<Box<dyn VecEnv>>> {
        Ok(None)
    }

    /// Bytes of one replica, by which a run that does not fit into memory is refused before it
    /// begins. Unless it is said otherwise, those of the arrays that every environment has.
    ///
    /// # Errors
    /// As [`Maker::spec`].
    fn bytes_per_replica(&self, config: &Self::Config) -> Result<u128> {
        Ok(ArrayIds::declare(&self.spec(config)?, 1, &[])?.0.bytes())
    }

    /// A notice for users who train in it, in one line.
    fn notice(&self) -> Option<&'static str> {
        None
    }

    /// How it is drawn; else its observations are shown as bars.
    fn drawing(&self) -> Option<Drawing> {
        None
    }

    /// Default training configurations in TOML, as `Registry::with_defaults` takes them, the default
    /// first.
    fn training(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// A maker under its name.
pub(super) struct Made<M> {
    pub(super) name: &'static str,
    pub(super) maker: M,
}

impl<M: Maker> Made<M> {
    fn config(table: &Table) -> Result<M::Config> {
        Ok(M::Config::from_table(table).map_err(|e| e.under("env."))?)
    }

    fn spec(&self, config: &M::Config) -> Result<EnvSpec> {
        let spec =
            EnvSpec { name: self.name.into(), ..self.maker.spec(config).map_err(under_env)? };
        spec.validate()?;
        Ok(spec)
    }

    /// Checks that `made` is what was described and asked for: trainers rely on its shapes.
    fn check(&self, made: &dyn VecEnv, spec: &EnvSpec, options: &VecOptions) -> Result<()> {
        let breaks = |reason: String| Err(Error::NonConforming { env: self.name.into(), reason });
        if let Some(part) = first_difference(made.spec(), spec) {
            return breaks(format!("the simulator's {part} differ from its maker's spec"));
        }
        if made.options() != options {
            let (made, asked) = (made.options(), options);
            return breaks(format!("it was made with {made:?}, but {asked:?} was asked for"));
        }
        wrong_array(made, spec, options.n_envs)?.map_or(Ok(()), breaks)
    }

    fn foreign<T>(&self) -> Result<T> {
        Err(Error::Foreign { env: self.name.into() })
    }
}

impl<M: Maker> Kind for Made<M> {
    fn make(&self, config: &Table, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        options.check()?;
        if options.start == Start::Pool {
            return self.foreign();
        }
        let config = Self::config(config)?;
        let spec = self.spec(&config)?;
        let made = self.maker.make(&config, options).map_err(under_env)?;
        self.check(&*made, &spec, options)?;
        Ok(made)
    }

    #[cfg(feature = "replicas")]
    fn make_replicas(&self, _: &Table, _: &ReplicaOptions) -> Result<Replicas> {
        self.foreign()
    }

    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        config: &Table,
        options: &VecOptions,
        kernels: &crate::cuda::Kernels,
        _: crate::cuda::Build,
    ) -> Result<Box<dyn VecEnv>> {
        options.check()?;
        if options.start == Start::Pool {
            return self.foreign();
        }
        let config = Self::config(config)?;
        let spec = self.spec(&config)?;
        let Some(made) = self.maker.make_cuda(&config, options, kernels).map_err(under_env)? else {
            return self.foreign();
        };
        self.check(&*made, &spec, options)?;
        Ok(made)
    }

    fn describe(&self, config: &Table) -> Result<(Table, EnvSpec)> {
        let config = Self::config(config)?;
        Ok((config.to_table(), self.spec(&config)?))
    }

    fn bytes_per_replica(&self, config: &Table) -> Result<u128> {
        self.maker.bytes_per_replica(&Self::config(config)?).map_err(under_env)
    }

    fn bytes_per_pool_row(&self, _: &Table) -> Result<u128> {
        self.foreign()
    }

    fn blueprint(&self, _: &Table) -> Result<Blueprint> {
        self.foreign()
    }

    fn check(&self, _: &Table, _: u64) -> Result<()> {
        self.foreign()
    }
}

/// What differs between two specs, apart from their names.
fn first_difference(a: &EnvSpec, b: &EnvSpec) -> Option<&'static str> {
    let parts = [
        ("groups", a.groups == b.groups),
        ("time limit and what it counts as", a.time_limit == b.time_limit),
        ("statistics", a.statistics == b.statistics),
        ("global observations", a.global_observation == b.global_observation),
    ];
    parts.into_iter().find(|(_, same)| !same).map(|(part, _)| part)
}

/// The first array of `made` that differs from those of `n_envs` replicas of `spec`, in a sentence.
fn wrong_array(made: &dyn VecEnv, spec: &EnvSpec, n_envs: usize) -> Result<Option<String>> {
    let (plan, needed) = ArrayIds::declare(spec, n_envs, &[])?;
    let needed_array = |id: ArrayId| {
        let (_, dtype, shape) = &plan.entries()[id.index()];
        format!("{dtype} {shape:?}")
    };
    let array = |id: ArrayId| made.store().arrays().nth(id.index());
    let made_array = |id| array(id).map(|array| format!("{} {:?}", array.dtype(), array.shape()));
    for ((kind, has), (_, needs)) in made.ids().kinds().into_iter().zip(needed.kinds()) {
        for at in 0..has.len().max(needs.len()) {
            let has = has.get(at).copied().flatten().and_then(made_array);
            let needs = needs.get(at).copied().flatten().map(needed_array);
            if has != needs {
                let group = spec.groups.get(at).filter(|_| kind.ends_with('.'));
                let group = group.map_or("", |group| &group.name);
                let [has, needs] = [has, needs].map(|array| array.unwrap_or("missing".into()));
                return Ok(Some(format!(
                    "the simulator's array \"{kind}{group}\" is {has}, but has to be {needs}"
                )));
            }
        }
    }
    let cut = |id: &&ArrayId| array(**id).and_then(|array| array.shape().first()) == Some(&n_envs);
    let whole = made.ids().state.iter().find(|id| !cut(id));
    Ok(whole.map(|id| {
        let name = array(*id).map_or("", |array| array.name());
        format!("the simulator's array \"{name}\" of its state has to have {n_envs} rows")
    }))
}

/// Keys that an error names are keys of the environment.
fn under_env(error: Error) -> Error {
    match error {
        Error::Core(error) => Error::Core(error.under("env.")),
        error => error,
    }
}

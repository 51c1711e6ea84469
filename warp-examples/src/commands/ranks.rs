//! Which ranks of a run this process has, and how they find the others.

use super::options;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use std::time::Duration;
use warp_train::Error;
use warp_train::world::{
    Cause, Hello, LINK_TIMEOUT, Launch, Link, Listener, MEETING, Over, World, from_environment,
    is_host_and_port, join, threads,
};

/// Maximum number of ranks of a run.
const MOST_RANKS: usize = 64;

/// Several GPUs and machines.
#[derive(Debug, Clone, Default, Args)]
pub struct RankArgs {
    /// Train one run on several GPUs, or distribute a fleet's runs over them: a number of GPUs, or their
    /// indices; with --device cpu, the number of parts into which this machine is divided.
    #[arg(long, value_name = "N | I,J,...")]
    pub gpus: Option<String>,
    /// Machines that share the run or the fleet's runs, each started with the same command except for --node.
    /// Processes that torchrun, Slurm, MPI or Kubernetes has started share them without this option.
    #[arg(long, value_name = "N", requires_all = ["node", "master"])]
    pub nodes: Option<usize>,
    /// This machine's number, from 0.
    #[arg(long, value_name = "I", requires = "nodes")]
    pub node: Option<usize>,
    /// Where machine 0 listens for the others.
    #[arg(long, value_name = "HOST:PORT", requires = "nodes", value_parser = host_and_port)]
    pub master: Option<String>,
    /// Seconds that ranks wait for each other before giving up; when they meet at the start, always 60.
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = options::seconds)]
    pub link_timeout: f64,
    /// Multiply num_envs by the number of ranks.
    #[arg(long)]
    pub scale_envs: bool,
}

/// The ranks of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranks {
    /// Rank of the first.
    first: usize,
    /// The GPU of each, or where it is on the CPU.
    places: Vec<usize>,
    /// Ranks of all processes.
    size: usize,
    /// Where rank 0 listens, if there are other processes.
    master: Option<String>,
    token: String,
    timeout: Duration,
}

/// One rank at its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rank<'a> {
    ranks: &'a Ranks,
    /// Its number among those of this process.
    local: usize,
}

impl Ranks {
    /// Ranks of all processes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// What the options or, without them, the environment say; nothing for a run of one rank.
    ///
    /// # Errors
    /// Options or variables that contradict each other.
    pub(super) fn of(args: &RankArgs) -> Result<Option<Self>> {
        let RankArgs { gpus, nodes, node, master, .. } = args;
        let timeout = match args.link_timeout {
            seconds if seconds > 0.0 => Duration::from_secs_f64(seconds),
            _ => LINK_TIMEOUT,
        };
        let launch = from_environment(|name| std::env::var(name).ok()).map_err(|e| anyhow!(e))?;
        if let Some(Launch { starter, .. }) = launch.as_ref().filter(|_| nodes.is_some()) {
            bail!("--nodes is given, but {starter} has started this process as one of several");
        }
        if let Some(Launch { rank, size, local_rank, master, token, starter }) = launch {
            if gpus.as_deref().is_some_and(|gpus| gpus != "1") {
                bail!("--gpus is given, but {starter} has started a process for each GPU");
            }
            check_size(size)?;
            let (places, master) = (vec![local_rank], Some(master));
            return Ok(Some(Self { first: rank, places, size, master, token, timeout }));
        }
        let places = gpus.as_deref().map_or(Ok(vec![0]), places)?;
        let (nodes, node) = (nodes.unwrap_or(1), node.unwrap_or(0));
        if node >= nodes {
            bail!("--node {node}: machines go from 0 to --nodes {nodes} - 1");
        }
        let size = places.len().saturating_mul(nodes);
        check_size(size)?;
        if size == 1 {
            return Ok(None);
        }
        let (first, token) = (node * places.len(), String::new());
        let master = master.clone().filter(|_| nodes > 1);
        Ok(Some(Self { first, places, size, master, token, timeout }))
    }

    /// Whether the first of all ranks is in this process.
    pub(super) fn has_first(&self) -> bool {
        self.first == 0
    }

    /// The devices that `--device` means for the ranks of this process.
    pub(super) fn devices(&self, name: &str) -> Result<Vec<String>> {
        (0..self.places.len()).map(|local| Rank { ranks: self, local }.device(name)).collect()
    }

    /// The world of a fleet, in which each process is a rank with all of its devices; it is alone where there is no
    /// other process. What all have to have in common is `common`, and `gpu` is this process's first.
    ///
    /// # Errors
    /// As [`Rank::world`].
    pub(super) fn processes(&self, common: String, gpu: String) -> Result<World> {
        if self.master.is_none() {
            return Ok(World::default());
        }
        let here = self.places.len();
        let processes = Self { first: self.first / here, size: self.size / here, ..self.clone() };
        Rank { ranks: &processes, local: 0 }.world(None, common, gpu)
    }

    /// Does `work` on every rank of this process, a thread each, and says what the first of them came to.
    ///
    /// # Errors
    /// What a rank could not do, of its own rather than that it lost the others.
    pub(super) fn each<T: Send>(
        &self,
        work: impl Fn(Rank<'_>, Option<Box<dyn Link>>) -> Result<T> + Sync,
    ) -> Result<T> {
        let links: Vec<Option<Box<dyn Link>>> = match self.master {
            Some(_) => self.places.iter().map(|_| None).collect(),
            None => threads(self.size, self.timeout).into_iter().map(Some).collect(),
        };
        let done: Vec<Result<T>> = std::thread::scope(|scope| {
            let rank = |(local, link)| {
                let work = &work;
                scope.spawn(move || work(Rank { ranks: self, local }, link))
            };
            let ranks: Vec<_> = links.into_iter().enumerate().map(rank).collect();
            let panicked = |_| Err(anyhow!("a rank panicked"));
            ranks.into_iter().map(|rank| rank.join().unwrap_or_else(panicked)).collect()
        });
        let is_of_others =
            |e: &anyhow::Error| e.downcast_ref().is_some_and(Error::is_of_other_ranks);
        let mut first = None;
        for result in done {
            match result {
                Err(error) if !is_of_others(&error) => return Err(error),
                other => {
                    first.get_or_insert(other);
                }
            }
        }
        first.unwrap_or_else(|| Err(anyhow!("this process has no rank")))
    }
}

impl Rank<'_> {
    /// Whether it is the first of all, which writes.
    pub(super) fn is_first(&self) -> bool {
        self.ranks.first + self.local == 0
    }

    /// Whether it is the first of its process, which hears signals.
    pub(super) fn is_first_here(&self) -> bool {
        self.local == 0
    }

    /// Ranks of its process.
    pub(super) fn here(&self) -> usize {
        self.ranks.places.len()
    }

    /// Ranks of all processes.
    pub(super) fn size(&self) -> usize {
        self.ranks.size
    }

    /// The device that `--device` means for it.
    pub(super) fn device(&self, name: &str) -> Result<String> {
        match name {
            "cpu" => Ok("cpu".into()),
            "auto" | "cuda" => Ok(format!("cuda:{}", self.ranks.places[self.local])),
            _ => bail!(
                "--device {name}: with several ranks each has its own GPU; choose them with --gpus"
            ),
        }
    }

    /// The world seen from it, once all ranks are there. `link` is the one of this process, if it has all.
    ///
    /// # Errors
    /// Ranks that do not come, or that are of another run.
    pub(super) fn world(
        &self,
        link: Option<Box<dyn Link>>,
        config: String,
        gpu: String,
    ) -> Result<World> {
        let Ranks { first, size, master, token, timeout, .. } = self.ranks;
        let rank = first + self.local;
        let link = match (link, master) {
            (Some(link), _) => link,
            (None, Some(master)) => {
                let own = Hello { rank, size: *size, token: token.clone(), config, gpu };
                match rank {
                    0 => Listener::bind(master)?.welcome(&own, MEETING, *timeout)?,
                    _ => join(master, &own, MEETING, *timeout)?,
                }
            }
            (None, None) => bail!("a rank is not connected to the others"),
        };
        Ok(World::new(rank, *size, link).waiting(*timeout))
    }
}

/// Tells the other ranks that this one failed, so that none waits for it and all end with the same exit code.
pub(super) fn give_up(world: &World, error: &anyhow::Error) {
    world.give_up(&Over { why: format!("{error:#}"), cause: cause_of(error) });
}

/// Of which kind an error is, which decides the exit code.
pub(crate) fn cause_of(error: &anyhow::Error) -> Cause {
    error.downcast_ref().map_or(Cause::Users, Cause::of)
}

fn host_and_port(text: &str) -> Result<String, String> {
    let fits = is_host_and_port(text);
    fits.then(|| text.into()).ok_or_else(|| "HOST:PORT is needed, as in node0:29500".into())
}

fn check_size(size: usize) -> Result<()> {
    if size > MOST_RANKS {
        bail!("{size} ranks are more than {MOST_RANKS}");
    }
    Ok(())
}

/// The places that `--gpus` names.
fn places(gpus: &str) -> Result<Vec<usize>> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let places: Option<Vec<usize>> = match number(gpus) {
        Some(0) => None,
        Some(n) if n <= MOST_RANKS => Some((0..n).collect()),
        Some(n) => bail!("--gpus {n}: at most {MOST_RANKS} are possible"),
        None => gpus.split(',').map(number).collect(),
    };
    let Some(places) = places else {
        bail!("--gpus {gpus}: a number of GPUs is needed, or their numbers, as in 0,2");
    };
    let twice = places.iter().enumerate().find(|(at, place)| places[..*at].contains(place));
    if let Some((_, place)) = twice {
        bail!("--gpus {gpus}: {place} is named twice");
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_a_number_or_numbers() {
        assert_eq!(places("3").unwrap(), [0, 1, 2]);
        assert_eq!(places("0,2").unwrap(), [0, 2]);
        for (text, words) in [
            ("0", "a number of GPUs"),
            ("x", "a number of GPUs"),
            ("", "a number of GPUs"),
            ("1,1", "1 is named twice"),
            ("1,", "a number of GPUs"),
            ("-1", "a number of GPUs"),
            ("65", "at most 64"),
        ] {
            let error = places(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

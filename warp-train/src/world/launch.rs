//! The rank of this process, from the environment variables of its launcher.

/// One process of a run that was started as several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// This process's rank.
    pub rank: usize,
    /// How many ranks there are.
    pub size: usize,
    /// This process's number among those of its machine.
    pub local_rank: usize,
    /// HOST:PORT where rank 0 listens.
    pub master: String,
    /// What all processes of the run have in common and no others.
    pub token: String,
    /// Who started it, as in "torchrun".
    pub starter: &'static str,
}

/// The variables of one way of starting processes.
struct Starter {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    /// How many of the processes are on this machine.
    local_size: Option<&'static str>,
    token: Option<&'static str>,
}

/// First match wins. Slurm's are those of a step: a batch script itself has a rank, too, but is none.
const STARTERS: [Starter; 6] = [
    Starter {
        name: "WARP_RANK",
        rank: "WARP_RANK",
        size: "WARP_WORLD",
        local_rank: "WARP_LOCAL_RANK",
        local_size: None,
        token: Some("WARP_TOKEN"),
    },
    Starter {
        name: "torchrun",
        rank: "RANK",
        size: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        local_size: Some("LOCAL_WORLD_SIZE"),
        token: Some("TORCHELASTIC_RUN_ID"),
    },
    Starter {
        name: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        local_size: None,
        token: Some("SLURM_JOB_ID"),
    },
    Starter {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
        token: Some("PMIX_NAMESPACE"),
    },
    Starter {
        name: "PMI",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_size: Some("MPI_LOCALNRANKS"),
        token: None,
    },
    Starter {
        name: "Kubernetes",
        rank: "JOB_COMPLETION_INDEX",
        size: "WARP_WORLD",
        local_rank: "WARP_LOCAL_RANK",
        local_size: None,
        token: Some("WARP_TOKEN"),
    },
];

/// Where rank 0 listens if nobody says a port.
const PORT: u16 = 29_600;

/// What the environment says of this process; nothing for one that was started by itself. `get` reads a
/// variable.
///
/// # Errors
/// Variables that contradict each other, or one that is missing.
pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Launch>, String> {
    let Some(starter) = STARTERS.iter().find(|starter| get(starter.rank).is_some()) else {
        return Ok(None);
    };
    let Starter { name, rank, size, local_rank, local_size, token } = starter;
    let number = |variable: &str| {
        get(variable)
            .map(|text| {
                let number: Option<usize> = text.trim().parse().ok();
                number.ok_or_else(|| format!("{variable}={text}: a whole number is needed"))
            })
            .transpose()
    };
    let missing = |variable: &str| format!("{name} says {rank} but not {variable}");
    let (Some(this), Some(n)) = (number(rank)?, number(size)?) else {
        // Kubernetes numbers every indexed job, and a batch script of Slurm has a number: no run of ours.
        let ours = !matches!(*name, "Kubernetes" | "Slurm");
        return if ours { Err(missing(size)) } else { Ok(None) };
    };
    if n == 0 || this >= n {
        return Err(format!("{rank}={this} with {size}={n}: ranks go from 0 to {size} - 1"));
    }
    if n == 1 {
        return Ok(None);
    }
    let local = match number(local_rank)? {
        Some(local) => local,
        None if local_size.is_some() => return Err(missing(local_rank)),
        None => 0,
    };
    let on_one_machine = match local_size {
        Some(variable) => number(variable)? == Some(n),
        None => false,
    };
    let master = master(&get, name, on_one_machine)?;
    let token = token.and_then(&get).unwrap_or_default();
    Ok(Some(Launch { rank: this, size: n, local_rank: local, master, token, starter: name }))
}

/// Whether `text` is HOST:PORT.
#[must_use]
pub fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// HOST:PORT of rank 0.
fn master(
    get: &impl Fn(&str) -> Option<String>,
    starter: &str,
    on_one_machine: bool,
) -> Result<String, String> {
    if let Some(given) = get("WARP_MASTER") {
        return match is_host_and_port(&given) {
            true => Ok(given),
            false => Err(format!("WARP_MASTER={given}: HOST:PORT is needed")),
        };
    }
    if let Some(host) = get("MASTER_ADDR") {
        // The starter's agent keeps its own port.
        let next = |port: &str| port.trim().parse::<u16>().ok()?.checked_add(1);
        let port = match get("MASTER_PORT") {
            Some(text) => next(&text).ok_or(format!("MASTER_PORT={text}: not a port"))?,
            None => PORT,
        };
        return Ok(format!("{host}:{port}"));
    }
    let first_of_slurm = || {
        let address = get("SLURM_LAUNCH_NODE_IPADDR").filter(|_| starter == "Slurm");
        first_node(&get("SLURM_STEP_NODELIST").or_else(|| get("SLURM_JOB_NODELIST"))?).or(address)
    };
    match first_of_slurm() {
        Some(host) if starter == "Slurm" => {
            let job: u64 = get("SLURM_JOB_ID").and_then(|id| id.parse().ok()).unwrap_or(0);
            // Jobs that share a machine get ports of their own.
            Ok(format!("{host}:{}", 20_000 + job % 20_000))
        }
        _ if on_one_machine => Ok(format!("127.0.0.1:{PORT}")),
        _ => Err(format!("{starter} does not say where rank 0 is: set WARP_MASTER=HOST:PORT")),
    }
}

/// The first machine of a list as Slurm writes it: `a[03-05,9],b` begins with `a03`.
fn first_node(list: &str) -> Option<String> {
    let Some((prefix, rest)) = list.split_once('[') else {
        return list.split(',').next().filter(|name| !name.is_empty()).map(Into::into);
    };
    if let Some((first, _)) = prefix.split_once(',') {
        return Some(first.into());
    }
    let (inside, suffix) = rest.split_once(']')?;
    let number = inside.split([',', '-']).next()?;
    let suffix = suffix.split(',').next().unwrap_or_default();
    Some(format!("{prefix}{number}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Result<Option<Launch>, String> {
        from_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    }

    /// Variables, who started the process, its number on its machine, and where rank 0 is.
    type Case = (&'static [(&'static str, &'static str)], &'static str, usize, &'static str);

    #[test]
    fn every_starter_says_which_rank_a_process_is() {
        let cases: [Case; 6] = [
            (
                &[("WARP_RANK", "1"), ("WARP_WORLD", "4"), ("WARP_MASTER", "h:5")],
                "WARP_RANK",
                0,
                "h:5",
            ),
            (
                &[
                    ("RANK", "1"),
                    ("WORLD_SIZE", "4"),
                    ("LOCAL_RANK", "1"),
                    ("MASTER_ADDR", "h"),
                    ("MASTER_PORT", "29500"),
                ],
                "torchrun",
                1,
                "h:29501",
            ),
            (
                &[
                    ("SLURM_PROCID", "1"),
                    ("SLURM_STEP_NUM_TASKS", "4"),
                    ("SLURM_LOCALID", "1"),
                    ("SLURM_STEP_NODELIST", "gpu[07-08],x"),
                    ("SLURM_JOB_ID", "20003"),
                ],
                "Slurm",
                1,
                "gpu07:20003",
            ),
            (
                &[
                    ("OMPI_COMM_WORLD_RANK", "1"),
                    ("OMPI_COMM_WORLD_SIZE", "4"),
                    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
                    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
                ],
                "Open MPI",
                1,
                "127.0.0.1:29600",
            ),
            (
                &[
                    ("PMI_RANK", "1"),
                    ("PMI_SIZE", "4"),
                    ("MPI_LOCALRANKID", "1"),
                    ("WARP_MASTER", "h:7"),
                ],
                "PMI",
                1,
                "h:7",
            ),
            (
                &[("JOB_COMPLETION_INDEX", "1"), ("WARP_WORLD", "4"), ("WARP_MASTER", "job-0:7")],
                "Kubernetes",
                0,
                "job-0:7",
            ),
        ];
        for (variables, starter, local_rank, master) in cases {
            let found = launch(variables).unwrap().unwrap();
            assert_eq!((found.rank, found.size), (1, 4), "{starter}");
            assert_eq!((found.starter, found.local_rank), (starter, local_rank));
            assert_eq!(found.master, master);
        }
    }

    #[test]
    fn what_contradicts_itself_is_a_sentence() {
        for (variables, words) in [
            (&[("WARP_RANK", "0")][..], "says WARP_RANK but not WARP_WORLD"),
            (&[("RANK", "4"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0")], "ranks go from 0"),
            (&[("RANK", "x"), ("WORLD_SIZE", "4")], "RANK=x: a whole number"),
            (&[("RANK", "0"), ("WORLD_SIZE", "2")], "but not LOCAL_RANK"),
            (
                &[("WARP_RANK", "0"), ("WARP_WORLD", "2"), ("WARP_MASTER", "host")],
                "WARP_MASTER=host: HOST:PORT",
            ),
            (&[("WARP_RANK", "0"), ("WARP_WORLD", "2")], "set WARP_MASTER=HOST:PORT"),
            (
                &[
                    ("WARP_RANK", "0"),
                    ("WARP_WORLD", "2"),
                    ("MASTER_ADDR", "h"),
                    ("MASTER_PORT", "65535"),
                ],
                "MASTER_PORT=65535: not a port",
            ),
        ] {
            let error = launch(variables).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_process_that_is_alone_has_no_world() {
        assert_eq!(launch(&[]), Ok(None));
        assert_eq!(launch(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), Ok(None));
        assert_eq!(launch(&[("JOB_COMPLETION_INDEX", "3")]), Ok(None));
        let one = [("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "h")];
        assert_eq!(launch(&one), Ok(None));
    }

    #[test]
    fn lists_of_machines_begin_with_the_first() {
        for (list, first) in
            [("a", "a"), ("a,b[1-2]", "a"), ("n[003-010]", "n003"), ("n[5,7]x,m", "n5x")]
        {
            assert_eq!(first_node(list).as_deref(), Some(first), "{list}");
        }
        assert_eq!(first_node(""), None);
    }
}

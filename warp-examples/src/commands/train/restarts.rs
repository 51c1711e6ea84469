//! `warp train --restarts N`: trains in a child process and starts another one when it loses a rank or is killed.
//!
//! The child is this program with the same command line, so that each process of a launcher watches over its own. A
//! run that has begun goes on in its folder: the first process knows it, and its child tells the other ranks.

use super::args::{RestartArgs, TrainArgs};
use super::task;
use crate::Outcome;
use crate::commands::fleet;
use crate::commands::ranks::Ranks;
use crate::commands::stop::{ASKING, Stop};
use crate::output::tell;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use warp_func::Registry;
use warp_train::Run;
use warp_train::checkpoint::list;
use warp_train::fleet::Fleet;
use warp_train::run::{Place, Which};

/// The exit code of a process that has lost a rank; another start may mend it.
pub(crate) const LOST: u8 = 75;
/// How often a child is looked after.
const LOOK: Duration = Duration::from_millis(10);

impl RestartArgs {
    /// Ties this process to the one that watches over it, if any: it ends with it, and is killed by no signal that
    /// the other one also gets.
    ///
    /// # Errors
    /// That one is gone already.
    pub(super) fn tie_to_supervisor(&self) -> Result<()> {
        let Some(supervisor) = self.supervisor else { return Ok(()) };
        Stop::may_come_twice();
        end_with_parent()?;
        // It may have ended before.
        if parent() != Some(supervisor) {
            bail!("process {supervisor}, which started this one, has ended");
        }
        Ok(())
    }
}

/// Runs the command in a child, and again where that may mend it.
///
/// # Errors
/// A command line that can't be run, or not again.
pub(super) fn supervise(args: &TrainArgs, registry: &Registry) -> Result<Outcome> {
    let n = args.restarts.restarts;
    let command = command_line(n)?;
    let job = Job::of(args, registry)?;
    let stop = Stop::listen()?;
    for restart in 0..=n {
        let status = wait(job.start(&command, restart)?, &stop)?;
        let why = match what_was_lost(status) {
            Some(why) if !stop.is_asked() => why,
            _ => return Ok(Outcome::Child { code: code_of(status) }),
        };
        match restart < n {
            true => tell(&format!("{why}; restart {} of {n}: {}", restart + 1, job.what_follows())),
            false => tell(&format!("{why}, and --restarts {n} allows no further restart")),
        }
    }
    Ok(Outcome::Child { code: LOST })
}

/// The command line of this process without the program: what comes before --restarts, and the rest.
fn command_line(n: u32) -> Result<[Vec<OsString>; 2]> {
    if !cfg!(target_os = "linux") {
        bail!("--restarts {n}: restarts need Linux, which ends a process with its parent");
    }
    let mut before: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_option = |arg: &OsString| arg.to_string_lossy().starts_with("--restarts");
    // A program that is part of another has a command line of its own.
    let Some(at) = before.iter().position(is_option) else {
        bail!(
            "--restarts {n}: only a process of its own can be restarted, such as the command warp"
        );
    };
    let rest = before.split_off(at);
    Ok([before, rest])
}

/// What is watched over.
#[derive(Debug)]
enum Job {
    /// A new run or fleet that the first process of it begins in a folder.
    New { folder: PathBuf, is_named: bool },
    /// What goes on in a folder anyway.
    Resumed { folder: PathBuf },
    /// What another process begins.
    Elsewhere,
}

impl Job {
    fn of(args: &TrainArgs, registry: &Registry) -> Result<Self> {
        let is_first = Ranks::of(&args.ranks)?.is_none_or(|ranks| ranks.has_first());
        if let Some(resume) = &args.resume {
            let Place { folder, which } = Place::parse(resume);
            if which != Which::Newest {
                bail!(
                    "--restarts goes on from the newest checkpoint, so {} can't be its start; \
                     resume that without --restarts first",
                    resume.display()
                );
            }
            return Ok(if is_first { Self::Resumed { folder } } else { Self::Elsewhere });
        }
        if !is_first {
            return Ok(Self::Elsewhere);
        }
        let folder = match &args.out {
            Some(folder) => folder.clone(),
            None if fleet::is_asked_for(args)? => fleet::new_folder(args, registry)?,
            None => task::new_folder(args, registry)?,
        };
        Ok(Self::New { folder, is_named: args.out.is_some() })
    }

    fn start(&self, [before, rest]: &[Vec<OsString>; 2], restart: u32) -> Result<Child> {
        let program = std::env::current_exe().context("this program's file is not known")?;
        let mut child = Command::new(program);
        child.args(before).arg("--supervisor").arg(std::process::id().to_string());
        if let Self::New { folder, is_named } = self {
            if !is_named {
                child.arg("--out").arg(folder);
            }
            // What was killed before it had a folder begins again.
            if restart > 0 && Run::check_free(folder).is_err() {
                child.arg("--go-on-in").arg(folder);
            }
        }
        child.args(rest).spawn().context("the process that trains can't be started")
    }

    /// What the next child does.
    fn what_follows(&self) -> String {
        let (Self::New { folder, .. } | Self::Resumed { folder }) = self else {
            return "this process rejoins the others".into();
        };
        let shown = folder.display();
        if Fleet::is_in(folder) {
            return format!("the fleet in {shown} goes on with the runs that have not ended");
        }
        match list(&Run::checkpoints(folder)).unwrap_or_default().last() {
            Some((step, _)) => format!("the run in {shown} goes on from step {step}"),
            None => {
                format!("there is no checkpoint in {shown} yet, so it starts from the beginning")
            }
        }
    }
}

/// Waits for a child, and passes on the signal that asks this process to stop.
fn wait(mut child: Child, stop: &Stop) -> Result<ExitStatus> {
    let mut passed_on = false;
    loop {
        if let Some(status) = child.try_wait().context("the process that trains is lost")? {
            return Ok(status);
        }
        if let Some(signal) = stop.asked_by().filter(|_| !passed_on) {
            send(signal, &child);
            passed_on = true;
        }
        std::thread::sleep(LOOK);
    }
}

/// What ended a child that another one may take the place of.
fn what_was_lost(status: ExitStatus) -> Option<String> {
    if status.code() == Some(LOST.into()) {
        return Some("a rank was lost (exit code 75)".into());
    }
    let killed_by = signal_of(status).filter(|signal| !ASKING.contains(signal));
    killed_by.map(|signal| format!("the training process was killed by signal {signal}"))
}

/// The exit code that a shell gives such an end.
fn code_of(status: ExitStatus) -> u8 {
    let killed = || signal_of(status).map(|signal| 128 + signal);
    status.code().or_else(killed).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(unix)]
fn send(signal: u8, child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(signal) = Signal::from_named_raw(signal.into()) {
        // It has not been waited for, so the number is still its own; it may have ended all the same.
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

#[cfg(unix)]
fn parent() -> Option<u32> {
    Some(std::os::unix::process::parent_id())
}

#[cfg(target_os = "linux")]
fn end_with_parent() -> Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("this process can't end with its parent")
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent() -> Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

#[cfg(not(unix))]
fn send(_: u8, _: &Child) {}

#[cfg(not(unix))]
fn parent() -> Option<u32> {
    None
}

//! A CUDA body at work in a process of its own, which reads actions and writes arrays.

use super::HostBuild;
use crate::blueprint::Blueprint;
use crate::error::Result;
use crate::vec_env::VecOptions;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process; ends with this value.
pub(super) struct Program {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    blueprint: Blueprint,
}

impl Program {
    /// Compiles the body and starts the program, which then has all replicas at their first state.
    pub(super) fn start(
        blueprint: &Blueprint,
        options: &VecOptions,
        build: &HostBuild<'_>,
    ) -> Result<Self> {
        let program = build.compiler.build(blueprint, options.n_envs, build)?;
        let failed = |reason: String| super::failed(blueprint, reason);
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(format!("{}: {e}", program.display())))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("the program has no input or output".into()));
        };
        let mut program = Self { child, to, from, blueprint: blueprint.clone() };
        let seed = options.seed;
        let mut words = vec![seed as u32, (seed >> 32) as u32, options.first_replica];
        blueprint.tables.iter().for_each(|table| words.extend(&table.bits));
        program.act(&words)?;
        Ok(program)
    }

    /// Sends words: the actions of a step.
    pub(super) fn act(&mut self, words: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sent = self.to.write_all(&bytes).and_then(|()| self.to.flush());
        sent.map_err(|e| self.stopped(&e))
    }

    /// The next `n` words that it writes.
    pub(super) fn read(&mut self, n: usize) -> Result<Vec<u32>> {
        let mut bytes = vec![0; 4 * n];
        self.from.read_exact(&mut bytes).map_err(|e| self.stopped(&e))?;
        Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    fn stopped(&mut self, error: &std::io::Error) -> crate::error::Error {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        super::failed(&self.blueprint, format!("its program stopped with {status}: {error}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may wait for more actions.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A thread that writes down what a run records, so that training does not wait for a disk.

use crate::error::{Error, Result};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Jobs that may wait; whoever gives another one waits, too.
const BACKLOG: usize = 1024;

/// How long the thread rests when everything is done, before it waits for more: whoever gives a job to a thread that
/// waits has to wake it, which takes longer than everything else about a line. Who waits for a job ends the rest.
const REST: Duration = Duration::from_millis(1);

type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// Does jobs on a `T`, such as an open file, one after the other in the order in which they were given, those of the
/// writers [`BackgroundWriter::beside`] it among them.
///
/// After a job that failed no other one is done; its error is that of the next call here. When the last of the writers
/// that share a thread is dropped, what is left is done first.
#[derive(Debug)]
pub struct BackgroundWriter<T> {
    thread: Arc<Thread>,
    on: Arc<Mutex<T>>,
    /// Says by its end that the last large job is over.
    large: Option<Receiver<()>>,
}

#[derive(Debug)]
struct Thread {
    jobs: Option<SyncSender<Job>>,
    handle: Option<JoinHandle<()>>,
    failed: Arc<Mutex<Option<Error>>>,
}

impl<T: Send + 'static> BackgroundWriter<T> {
    /// One that works on `on` in a thread called `name`.
    ///
    /// # Errors
    /// A system that starts no thread.
    pub fn new(name: &str, on: T) -> Result<Self> {
        Ok(Self::on(Arc::new(Thread::start(name)?), on))
    }

    fn on(thread: Arc<Thread>, on: T) -> Self {
        Self { thread, on: Arc::new(Mutex::new(on)), large: None }
    }

    /// One that works on something else in the same thread, and so in one order with this one.
    pub fn beside<U: Send + 'static>(&self, on: U) -> BackgroundWriter<U> {
        BackgroundWriter::on(self.thread.clone(), on)
    }

    /// Gives it a job.
    ///
    /// # Errors
    /// That of an earlier job.
    pub fn give(&self, job: impl FnOnce(&mut T) -> Result<()> + Send + 'static) -> Result<()> {
        let on = self.on.clone();
        self.thread
            .give(Box::new(move || job(&mut on.lock().unwrap_or_else(PoisonError::into_inner))))
    }

    /// Gives it a job that holds much memory, as soon as an earlier one of these is over.
    ///
    /// # Errors
    /// That of an earlier job.
    pub fn give_large(
        &mut self,
        job: impl FnOnce(&mut T) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        if let Some(over) = self.large.take() {
            self.thread.wake();
            // Nobody sends: it ends.
            let _ = over.recv();
        }
        let (holds, over) = channel::<()>();
        self.large = Some(over);
        self.give(move |on| {
            let done = job(on);
            drop(holds);
            done
        })
    }

    /// Waits until all jobs are done.
    ///
    /// # Errors
    /// That of a job.
    pub fn wait(&self) -> Result<()> {
        let (sender, done) = channel();
        self.give(move |_| {
            let _ = sender.send(());
            Ok(())
        })?;
        self.thread.wake();
        done.recv().map_err(|_| self.thread.failure())
    }
}

/// The next job, as soon as there is one.
fn next(jobs: &Receiver<Job>) -> std::result::Result<Job, RecvError> {
    match jobs.try_recv() {
        Ok(job) => Ok(job),
        Err(TryRecvError::Disconnected) => Err(RecvError),
        Err(TryRecvError::Empty) => {
            std::thread::park_timeout(REST);
            jobs.recv()
        }
    }
}

impl Thread {
    fn start(name: &str) -> Result<Self> {
        let (sender, jobs) = sync_channel::<Job>(BACKLOG);
        let failed = Arc::new(Mutex::new(None));
        let failure = failed.clone();
        let work = move || {
            while let Ok(job) = next(&jobs) {
                if let Err(error) = job() {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    break;
                }
            }
        };
        let handle = Builder::new().name(name.into()).spawn(work);
        let handle = handle
            .map_err(|e| Error::Invalid(format!("the thread \"{name}\" can't start: {e}")))?;
        Ok(Self { jobs: Some(sender), handle: Some(handle), failed })
    }

    fn give(&self, job: Job) -> Result<()> {
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// Ends the rest of the thread.
    fn wake(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }

    /// What went wrong; later the same in fewer words.
    fn failure(&self) -> Error {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = failed.take();
        known.unwrap_or_else(|| {
            Error::Invalid("the records of this run are no longer being written".into())
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(handle) = self.handle.take() {
            // A job that panicked has said so.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, TryRecvError};

    #[test]
    fn jobs_are_done_in_order_and_all_of_them() {
        let (sender, done) = channel();
        let writer = BackgroundWriter::new("test", (sender, 0)).unwrap();
        for i in 0..100 {
            let job = move |(sender, n): &mut (Sender<_>, i32)| {
                *n += 1;
                sender.send((i, *n)).unwrap();
                Ok(())
            };
            writer.give(job).unwrap();
        }
        writer.wait().unwrap();
        assert!((0..100).all(|i| done.try_recv() == Ok((i, i + 1))));
        // Dropped, it does what is left.
        let (go, wait) = channel::<()>();
        writer.give(move |_| wait.recv().map_err(|e| Error::Invalid(e.to_string()))).unwrap();
        writer
            .give(|(sender, _)| sender.send((7, 7)).map_err(|e| Error::Invalid(e.to_string())))
            .unwrap();
        go.send(()).unwrap();
        drop(writer);
        assert_eq!((done.recv(), done.try_recv()), (Ok((7, 7)), Err(TryRecvError::Disconnected)));
    }

    #[test]
    fn an_error_ends_it_and_is_told() {
        let writer = BackgroundWriter::new("test", 0).unwrap();
        writer.give(|_| Err(Error::Invalid("the disk is full".into()))).unwrap();
        writer
            .give(|n| {
                *n += 1;
                panic!("done after a failure")
            })
            .ok();
        let told = writer.wait().unwrap_err().to_string();
        assert!(told.contains("the disk is full"), "{told}");
        assert!(writer.give(|_| Ok(())).is_err() && writer.wait().is_err());
    }

    #[test]
    fn what_is_beside_each_other_has_one_order() {
        let (sender, done) = channel();
        let one = BackgroundWriter::new("test", sender.clone()).unwrap();
        let other = one.beside(sender);
        for i in 0..100 {
            let writer = if i % 3 == 0 { &one } else { &other };
            let job = move |sender: &mut Sender<_>| {
                sender.send(i).map_err(|e| Error::Invalid(e.to_string()))
            };
            writer.give(job).unwrap();
        }
        drop(one);
        other.wait().unwrap();
        assert!((0..100).all(|i| done.try_recv() == Ok(i)));
    }

    #[test]
    fn one_large_job_is_held_at_a_time() {
        let mut writer = BackgroundWriter::new("test", ()).unwrap();
        let held = Arc::new(());
        for _ in 0..20 {
            let own = held.clone();
            writer
                .give_large(move |()| {
                    drop(own);
                    Ok(())
                })
                .unwrap();
            // This one, the one at hand, and the one that waits.
            assert!(Arc::strong_count(&held) <= 2);
        }
    }
}

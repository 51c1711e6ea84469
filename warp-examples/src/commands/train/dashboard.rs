//! `warp train --dashboard`: what is shown of a run as it trains.

use crate::commands::progress::ReturnBar;
use anyhow::Result;
use warp_train::Trainer;
use warp_train::callback::Callback;
use warp_train::metrics::RecentReturns;

/// An error if a dashboard is requested that this build does not have.
pub(super) fn check(asked: bool) -> Result<()> {
    if asked && cfg!(not(feature = "dashboard")) {
        anyhow::bail!(
            "--dashboard needs the feature dashboard, which this build does not have; without it \
             there is a progress bar"
        );
    }
    Ok(())
}

/// A dashboard, if requested and standard output is a terminal; otherwise a bar, or an occasional line.
pub(super) fn shown(
    asked: bool,
    trainer: &Trainer,
    recent: &RecentReturns,
) -> Result<Box<dyn Callback>> {
    if asked {
        #[cfg(feature = "dashboard")]
        if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            return Ok(Box::new(live::Dashboard::open(trainer)?));
        }
        #[cfg(not(feature = "dashboard"))]
        check(asked)?;
    }
    Ok(Box::new(ReturnBar::new(trainer, recent)))
}

#[cfg(feature = "dashboard")]
mod live {
    use crate::dashboard::model::Shown;
    use crate::dashboard::screen::Screen;
    use anyhow::Result;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use warp_train::callback::{Callback, End, Flow};
    use warp_train::metrics::IterationMetrics;
    use warp_train::run::BackgroundWriter;
    use warp_train::{Error, Trainer};

    /// How often the screen is drawn, at most: some milliseconds of work each time.
    const EVERY: Duration = Duration::from_millis(500);

    /// A run on the screen, drawn by a separate thread.
    #[derive(Debug)]
    pub(super) struct Dashboard {
        live: BackgroundWriter<Live>,
    }

    #[derive(Debug)]
    struct Live {
        screen: Option<Screen>,
        shown: Shown,
        next: Instant,
    }

    impl Dashboard {
        pub(super) fn open(trainer: &Trainer) -> Result<Self> {
            let (config, first) = (trainer.config(), trainer.env_steps());
            let (env, algorithm) = (&config.run.env_id, config.algorithm());
            let title = format!("{env}, {algorithm}, seed {}", config.run.seed);
            let shown = Shown::new(title, first, config.end_after(first));
            let live = Live { screen: Some(Screen::open()?), shown, next: Instant::now() };
            Ok(Self { live: BackgroundWriter::new("warp dashboard", live)? })
        }
    }

    impl Live {
        fn iterations(&mut self, done: &[IterationMetrics]) -> Result<()> {
            let draws = Instant::now() >= self.next;
            for (n, one) in done.iter().enumerate() {
                self.shown.iteration(one, draws && n + 1 == done.len());
            }
            if let Some(screen) = self.screen.as_mut().filter(|_| draws) {
                screen.show(&[&self.shown], "Ctrl-C stops the run, which can be resumed later")?;
                self.next = Instant::now() + EVERY;
            }
            Ok(())
        }
    }

    impl Callback for Dashboard {
        fn iteration(
            &mut self,
            _: &Trainer,
            done: &Arc<[IterationMetrics]>,
        ) -> warp_train::Result<Flow> {
            let done = done.clone();
            self.live
                .give(move |live| live.iterations(&done).map_err(|e| Error::Callback(e.into())))?;
            Ok(Flow::Continue(()))
        }

        fn end(&mut self, _: &Trainer, _: End) -> warp_train::Result<()> {
            // Later messages go to the normal screen.
            self.live.give(|live| {
                live.screen = None;
                Ok(())
            })?;
            self.live.wait()
        }
    }
}

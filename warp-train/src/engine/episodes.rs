//! The episodes that ended on all ranks.

use crate::config::Sharing;
#[cfg(feature = "cuda")]
use crate::engine::Iterated;
use crate::error::Result;
use warp_func::{EpisodeTotals, Spread, VecEnv};

/// Takes the totals of the episodes that ended since the last call, of all ranks in the order of shards.
///
/// # Errors
/// Ranks that have lost each other.
pub(crate) fn take(envs: &mut dyn VecEnv, sharing: &Sharing) -> Result<EpisodeTotals> {
    if sharing.shards.is_one() {
        return Ok(envs.take_episodes());
    }
    sum(&envs.take_episodes_of_parts(), sharing)
}

/// Sums what every rank says of its parts, as many on each.
///
/// # Errors
/// Ranks that have lost each other.
pub(crate) fn sum(parts: &[EpisodeTotals], sharing: &Sharing) -> Result<EpisodeTotals> {
    let Some(first) = parts.first() else { return Ok(EpisodeTotals::default()) };
    let numbers: Vec<f64> = parts.iter().flat_map(numbers).collect();
    let each = numbers.len() / parts.len();
    let all = sharing.world.all_gather_f64("episodes", &numbers)?;
    let mut sum = EpisodeTotals::new(first.returns.len(), first.statistics.len());
    for part in all.chunks_exact(each) {
        sum.merge(&of_numbers(part, first));
    }
    Ok(sum)
}

/// Sums what every rank says of some iterations, each by itself.
///
/// # Errors
/// Ranks that have lost each other.
#[cfg(feature = "cuda")]
pub(crate) fn sum_each(
    iterations: &[EpisodeTotals],
    sharing: &Sharing,
) -> Result<Vec<EpisodeTotals>> {
    let Some(first) = iterations.first().filter(|_| !sharing.world.is_alone()) else {
        return Ok(iterations.to_vec());
    };
    let here: Vec<f64> = iterations.iter().flat_map(numbers).collect();
    let all = sharing.world.all_gather_f64("episodes", &here)?;
    let each = here.len() / iterations.len();
    let mut sums =
        vec![EpisodeTotals::new(first.returns.len(), first.statistics.len()); iterations.len()];
    for part in all.chunks_exact(here.len()) {
        for (sum, numbers) in sums.iter_mut().zip(part.chunks_exact(each)) {
            sum.merge(&of_numbers(numbers, first));
        }
    }
    Ok(sums)
}

/// Puts the totals of all ranks' episodes in place of this rank's in what these iterations gave.
///
/// # Errors
/// Ranks that have lost each other.
#[cfg(feature = "cuda")]
pub(crate) fn sum_in(done: &mut [Iterated], sharing: &Sharing) -> Result<()> {
    if sharing.world.is_alone() {
        return Ok(());
    }
    let episodes: Vec<_> = done.iter().map(|one| one.episodes.clone()).collect();
    let sums = sum_each(&episodes, sharing)?;
    done.iter_mut().zip(sums).for_each(|(one, all)| one.episodes = all);
    Ok(())
}

fn numbers(totals: &EpisodeTotals) -> Vec<f64> {
    let spread = |spread: &Spread| [spread.sum, spread.min, spread.max];
    let mut numbers = vec![totals.count as f64];
    numbers.extend(spread(&totals.length));
    numbers.extend(totals.returns.iter().flat_map(spread));
    numbers.extend(&totals.statistics);
    numbers
}

/// The reverse of [`numbers`], for totals with as many groups and statistics as `like`.
fn of_numbers(numbers: &[f64], like: &EpisodeTotals) -> EpisodeTotals {
    let spread =
        |at: usize| Spread { sum: numbers[at], min: numbers[at + 1], max: numbers[at + 2] };
    let returns = like.returns.len();
    EpisodeTotals {
        count: numbers[0] as u64,
        length: spread(1),
        returns: (0..returns).map(|group| spread(4 + 3 * group)).collect(),
        statistics: numbers[4 + 3 * returns..].to_vec(),
    }
}

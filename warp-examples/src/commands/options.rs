//! Options with a range of values, which are parsed and checked here.

use crate::settings;
use warp_core::ConfigValue;

/// Maximum number of threads: more than any machine has cores.
const MOST_THREADS: usize = 1024;

/// A number of threads; 0 stands for one per core.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if threads <= MOST_THREADS => Ok(threads),
        _ => Err(format!("a whole number from 0 to {MOST_THREADS} is needed")),
    }
}

/// A finite number.
pub(super) fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "a finite number is needed".into())
}

/// A time limit in seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0);
    seconds.ok_or_else(|| "more than 0 and at most 86400 seconds are needed".into())
}

/// A whole number as a configuration has it: 1e5 and 100_000 are some, too.
pub(super) fn whole<T: ConfigValue>(text: &str) -> Result<T, String> {
    T::from_value(&settings::parse_value(text)).map_err(|expected| format!("{expected} is needed"))
}

/// A number of steps, replicas or the like.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let count = whole(text).ok().filter(|count| *count > 0);
    count.ok_or_else(|| "a whole number from 1 is needed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!((threads("0"), threads("1024")), (Ok(0), Ok(1024)));
        for text in ["1025", "100000", "-1", "1e9", "", "many"] {
            assert!(threads(text).unwrap_err().contains("from 0 to 1024"), "{text}");
        }
        assert_eq!((finite("-1.5"), seconds("0.5"), count("7")), (Ok(-1.5), Ok(0.5), Ok(7)));
        for text in ["nan", "NaN", "inf", "-infinity", "1e999", ""] {
            assert!(
                finite(text).is_err() && seconds(text).is_err() && count(text).is_err(),
                "{text}"
            );
        }
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("1e300").is_err());
        assert_eq!((count("1e3"), whole("100_000")), (Ok(1000), Ok(100_000_u64)));
        for text in ["x", "-1", "1.5", "1e30", "[1]", ""] {
            let needed = "a whole number from 0 to 4294967295 is needed";
            assert_eq!(whole::<u32>(text), Err(needed.into()), "{text}");
        }
        assert!(count("0").is_err() && count("18446744073709551616").is_err());
    }
}

//! Days of the calendar as whole numbers, so that dates can be subtracted.

use warp_core::{Error, Result};

/// Days from 1970-01-01 to the date that `text`, the value of `key`, holds as `YYYY-MM-DD`.
///
/// # Errors
/// A text that is no date.
pub(super) fn day(key: &str, text: &str) -> Result<i32> {
    let refused = || Error::invalid(key, format!("\"{text}\""), "must be a date, as 2020-03-22");
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(i, byte)| match i {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !shaped {
        return Err(refused());
    }
    let number = |range: std::ops::Range<usize>| text[range].parse().unwrap_or(0);
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return Err(refused());
    }
    Ok(count(year, month, day))
}

/// The date of `day`, as [`day`] counts, written as `YYYY-MM-DD`.
pub(super) fn text(day: i32) -> String {
    let mut year = 1970 + day.div_euclid(365);
    while count(year, 1, 1) > day {
        year -= 1;
    }
    while count(year + 1, 1, 1) <= day {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && count(year, month + 1, 1) <= day {
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", day - count(year, month, 1) + 1)
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i32, month: i32) -> i32 {
    match month {
        2 => 28 + i32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn count(year: i32, month: i32, day: i32) -> i32 {
    let past = year - 1;
    let leap_days = |year: i32| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let years = 365 * (year - 1970) + leap_days(past) - leap_days(1969);
    years + (1..month).map(|month| days_in(year, month)).sum::<i32>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_over_leap_years_and_back() {
        let of = |text: &str| day("start_date", text).unwrap();
        assert_eq!((of("1970-01-01"), of("1970-01-31"), of("1972-03-01")), (0, 30, 790));
        assert_eq!(of("2020-03-22") - of("2020-01-01"), 81);
        assert_eq!(of("2021-01-12") - of("2020-03-22"), 296);
        for days in
            [-719_162, -600_000, -1, 0, 58, 59, 18_262, 18_321, 18_322, 18_627, 18_628, 40_000]
        {
            assert_eq!((of(&text(days)), days), (days, days));
        }
    }

    #[test]
    fn what_is_no_date_is_refused_with_its_text() {
        for text in ["2020-3-22", "2020-13-01", "2021-02-29", "2020-04-31", "2020-01-00", "heute"] {
            let refused = day("start_date", text).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("start_date = \"{text}\": must be a date")));
        }
        assert!(day("start_date", "2020–1-01").is_err());
    }
}

//! What is said of a metric that no run has.

/// One sentence; `known` are the metrics that there are, and without `metric` the return was wanted.
pub(super) fn no_such_metric(metric: Option<&str>, known: &[String]) -> String {
    let Some(metric) = metric else {
        return "no episode has finished in these runs, so there are no returns".into();
    };
    if known.is_empty() {
        return format!("no run has {metric}: none of them has finished an iteration");
    }
    // Whoever names a part means one of its figures, most often the mean.
    let part = format!("{metric}.");
    let mean = format!("{metric}.mean");
    let inner = known.iter().find(|name| **name == mean);
    match inner.or_else(|| known.iter().find(|name| name.starts_with(&part))) {
        Some(inner) => format!("no run has {metric}; did you mean {inner}?"),
        None => format!("no run has {metric}; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_named() {
        let known =
            ["episode_return.max", "episode_return.mean", "policy.pole.q"].map(String::from);
        let said = |metric| no_such_metric(metric, &known);
        assert_eq!(
            said(Some("episode_return")),
            "no run has episode_return; did you mean episode_return.mean?"
        );
        assert!(said(Some("policy.pole")).ends_with("did you mean policy.pole.q?"));
        assert!(said(Some("loss")).starts_with("no run has loss; there are episode_return.max, "));
        assert!(said(None).starts_with("no episode has finished"));
        assert!(
            no_such_metric(Some("loss"), &[]).contains("none of them has finished an iteration")
        );
    }
}

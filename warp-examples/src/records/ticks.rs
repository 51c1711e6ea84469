//! Numbers on axes, and curves with no more points than can be seen.

/// At most a thousand points, each the mean of neighbours.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(1000).max(1);
    let mean = |part: &[(f64, f64)]| {
        let n = part.len() as f64;
        (part.iter().map(|p| p.0).sum::<f64>() / n, part.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(together).map(mean).collect()
}

/// A number on an axis of some length, as short as it can be told from its neighbours.
pub(super) fn tick(value: f64, length: f64) -> String {
    let value = if value.abs() < length * 1e-9 { 0.0 } else { value };
    let largest = value.abs().max(length);
    let (divisor, unit) = match largest {
        l if l >= 2e9 => (1e9, "G"),
        l if l >= 2e6 => (1e6, "M"),
        l if l >= 2e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let step = length / divisor / 10.0;
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{:.digits$}", value / divisor);
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "0" { text.into() } else { format!("{text}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        assert_eq!(tick(0.0, 500_000.0), "0");
        assert_eq!(tick(100_000.0, 500_000.0), "100k");
        assert_eq!(tick(1.5e6, 5e6), "1.5M");
        assert_eq!(tick(-150.0, 100.0), "-150");
        assert_eq!(tick(0.05, 0.2), "0.05");
        assert_eq!(tick(1e-17, 0.2), "0");
        assert_eq!(tick(500.0, 450.0), "500");
    }

    #[test]
    fn long_curves_are_thinned() {
        let points: Vec<_> = (0..2500).map(|i| (f64::from(i), 1.0)).collect();
        assert_eq!(thinned(&points).len(), 834);
        assert_eq!(thinned(&points[..10]), &points[..10]);
    }
}

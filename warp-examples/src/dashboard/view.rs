//! Runs drawn with ratatui: a heading with a gauge, curves of returns, figures, and the last messages.

use super::gpus::GpuUse;
use super::model::Shown;
use crate::output::one_line;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph};

/// Lines for messages.
const MESSAGES: u16 = 3;
/// GPUs that have a line.
const MOST_GPUS: usize = 8;
/// Columns for figures.
const FIGURES: u16 = 36;
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::Blue, Color::Red];

/// What is shown once, whatever runs.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// The GPUs.
    pub gpus: &'a [GpuUse],
    /// What was told.
    pub messages: &'a [String],
}

/// Draws all runs below each other, the GPUs, the last messages and how to leave.
pub fn draw(frame: &mut Frame<'_>, runs: &[&Shown], machine: Machine<'_>, leave: &str) {
    let Machine { gpus, messages } = machine;
    let shares = runs.iter().map(|_| Constraint::Fill(1));
    let gpus = &gpus[..gpus.len().min(MOST_GPUS)];
    let foot = [gpus.len() as u16, MESSAGES, 1].map(Constraint::Length);
    let areas = Layout::vertical(shares.chain(foot).collect::<Vec<_>>()).split(frame.area());
    for (run, area) in runs.iter().zip(areas.iter()) {
        draw_run(frame, run, *area);
    }
    let lines: Vec<Line<'_>> = gpus.iter().map(|gpu| Line::from(one_line(&gpu.line()))).collect();
    frame.render_widget(Paragraph::new(lines), areas[runs.len()]);
    let last = messages.iter().rev().take(usize::from(MESSAGES)).rev();
    let lines: Vec<Line<'_>> = last.map(|line| Line::from(one_line(line)).dim()).collect();
    frame.render_widget(Paragraph::new(lines), areas[runs.len() + 1]);
    frame.render_widget(Paragraph::new(leave).dim(), areas[runs.len() + 2]);
}

fn draw_run(frame: &mut Frame<'_>, run: &Shown, area: Rect) {
    let block = Block::bordered().title(one_line(&run.title));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if let Some(fault) = &run.fault {
        frame.render_widget(Paragraph::new(one_line(fault)).red(), inner);
        return;
    }
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
    let gauge = Gauge::default().ratio(run.share()).label(heading(run)).use_unicode(true);
    frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Cyan)), head);
    let columns = [Constraint::Fill(1), Constraint::Length(FIGURES.min(body.width / 2))];
    let [left, right] = Layout::horizontal(columns).areas(body);
    draw_returns(frame, run, left);
    frame.render_widget(Paragraph::new(figures(run)), right);
}

/// How far the run is, how fast, and how long it will take.
fn heading(run: &Shown) -> String {
    let evaluation = run.evaluation.map_or(String::new(), |mean| format!(", evaluation {mean:.1}"));
    let rate = crate::output::short(run.rate);
    let outlook = run.outlook();
    format!("{} of {} steps, {rate}steps/s{outlook}{evaluation}", run.steps, run.total)
}

fn draw_returns(frame: &mut Frame<'_>, run: &Shown, area: Rect) {
    let all = || run.returns.values().flat_map(|curve| curve.points());
    if all().next().is_none() {
        frame.render_widget(Paragraph::new("no episode has finished yet").dim(), area);
        return;
    }
    let low = all().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let margin = if high > low { 0.05 * (high - low) } else { 0.5 };
    let (low, high) = (low - margin, high + margin);
    let end = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let line = |(n, (name, curve)): (usize, (&String, &'_ super::model::Curve))| {
        let last = curve.points().last().map_or(String::new(), |(_, y)| format!(" {y:.1}"));
        let colour = COLOURS[n % COLOURS.len()];
        (format!("{}{last}", one_line(name)), colour, curve.points().to_vec())
    };
    let lines: Vec<_> = run.returns.iter().enumerate().map(line).collect();
    let sets = lines.iter().map(|(name, colour, points)| {
        let set = Dataset::default().name(name.as_str()).marker(Marker::Braille);
        set.graph_type(GraphType::Line).style(Style::new().fg(*colour)).data(points)
    });
    let numbers = |low: f64, high: f64| [format!("{low:.1}"), format!("{high:.1}")];
    let steps = Axis::default().bounds([0.0, end]).labels(["0".into(), format!("{end:.0} steps")]);
    let returns = Axis::default().bounds([low, high]).labels(numbers(low, high));
    frame.render_widget(Chart::new(sets.collect()).x_axis(steps).y_axis(returns), area);
}

/// Phases, then figures of the last iteration.
fn figures(run: &Shown) -> Vec<Line<'static>> {
    let phase = |(name, share): &(&str, f64)| format!("{name} {:.0} %", 100.0 * share);
    let phases: Vec<String> = run.phases.iter().map(phase).collect();
    let head = (!phases.is_empty()).then(|| Line::from(phases.join("  ")).dim());
    let figure = |(name, figure): &(String, f64)| {
        let room = usize::from(FIGURES) - 12;
        let name: String = one_line(name).chars().take(room).collect();
        Line::from(format!(" {name:<room$} {figure:>10.4}"))
    };
    head.into_iter().chain(run.figures.iter().map(figure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(runs: &[&Shown], messages: &[String], [width, height]: [u16; 2]) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let gpu = |n: u64| GpuUse {
            name: format!("GPU {n}, H200"),
            busy: 0.87,
            used: 12_340_000_000,
            total: 150_754_820_096,
        };
        let machine = Machine { gpus: &[gpu(0), gpu(1)], messages };
        terminal.draw(|frame| draw(frame, runs, machine, "q leaves")).unwrap();
        terminal.backend().to_string()
    }

    fn run() -> Shown {
        let mut run = Shown::new("runs/cart\u{1b}pole".into(), 0, 4000);
        for steps in 1..=30_u32 {
            let mean = 10.0 * f64::from(steps);
            run.line(&serde_json::json!({
                "env_steps": 100 * steps,
                "episode_return": { "mean": mean },
                "policy": { "pole": { "loss": 0.25, "entropy": 0.5 } },
                "steps_per_second": { "total": 100.0, "step": 200.0, "learn": 200.0 },
                "evaluation": { "mean_episode_return": 42.0 },
            }));
        }
        run
    }

    #[test]
    fn a_run_is_shown_with_all_that_is_known_of_it() {
        let text = drawn(&[&run()], &["a".into(), "warning: \u{1b}[2J".into()], [110, 24]);
        for words in [
            "3000 of 4000 steps, 100.0 steps/s, 10 s left, evaluation 42.0",
            "return 300.0",
            "step 50 %  learn 50 %",
            "pole.entropy",
            "0.2500",
            "warning: \\u001b[2J",
            "runs/cart\\u001bpole",
            "GPU 1, H200: busy 87 %, memory 12.3 of 151 GB",
            "q leaves",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(
            text.contains('\u{2801}')
                || text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c))
        );
    }

    #[test]
    fn several_runs_and_small_windows_are_no_trouble() {
        let (one, empty) = (run(), Shown::new("empty".into(), 0, 10));
        let mut broken = Shown::new("gone".into(), 0, 10);
        broken.fault = Some("it is gone".into());
        let text = drawn(&[&one, &empty, &broken], &[], [100, 40]);
        assert!(
            text.contains("no episode has finished yet") && text.contains("it is gone"),
            "{text}"
        );
        for size in [[1, 1], [3, 2], [20, 5], [300, 100]] {
            drawn(&[&one, &empty], &["x".into()], size);
        }
    }
}

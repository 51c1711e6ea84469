//! Curves over environment steps or another axis, as PNG or SVG: panels of lines with bands around them, and one legend
//! below all of them.

use super::history::Axis;
use super::pixels::{Area, OVERSAMPLING, Pixels, broken};
use super::ticks::{thinned, tick};
use crate::named_file;
use crate::render::png::png;
use anyhow::{Result, anyhow, bail};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

/// Size of a panel, pixels.
const PANEL: (u32, u32) = (700, 420);
/// Height of the title above the panels, pixels.
const TITLE: u32 = 52;
const TEXT: RGBColor = RGBColor(40, 44, 52);
const GRID: RGBColor = RGBColor(228, 231, 236);
/// Colours of lines, in turn; apart from each other for colour-blind eyes, too (Okabe and Ito). Behind the last one they
/// begin again with another of [`DASHES`].
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// Lengths of dashes and of the gaps between them, pixels; none: the line is solid.
const DASHES: [Option<[u32; 2]>; 4] = [None, Some([12, 6]), Some([3, 5]), Some([24, 5])];
/// Height of a row of the legend, pixels, where its text begins, and the length of its lines.
const ROW: i32 = 24;
const LEGEND_TEXT: i32 = 120;
const SAMPLE: i32 = 40;
/// A legend with longer texts has a single column.
const LONG: usize = 75;

/// An image with several panels.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Above everything.
    pub title: String,
    /// Row by row, two in each.
    pub panels: Vec<Panel>,
}

/// Axes with curves.
#[derive(Debug, Clone, Default)]
pub struct Panel {
    /// Above the axes.
    pub title: String,
    /// The curves; the first ones lie below the others.
    pub lines: Vec<Line>,
    /// The axis goes at least so far.
    pub until: f64,
    /// What the axis is.
    pub axis: Horizontal,
}

/// What a panel's horizontal axis is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Horizontal {
    /// How far a run is, from its beginning on.
    Progress(Axis),
    /// Scores from this one on.
    Scores {
        /// The lowest.
        from: f64,
    },
}

impl Default for Horizontal {
    fn default() -> Self {
        Self::Progress(Axis::default())
    }
}

impl Horizontal {
    /// The label below the axis.
    fn title(self) -> &'static str {
        match self {
            Self::Progress(axis) => axis.title(),
            Self::Scores { .. } => "score",
        }
    }

    /// Where it begins.
    fn start(self) -> f64 {
        match self {
            Self::Progress(_) => 0.0,
            Self::Scores { from } => from,
        }
    }
}

/// A curve.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// What the legend calls it; nothing: it is not in the legend.
    pub label: String,
    /// Number of its colour; in all panels the same for what has the same label.
    pub colour: usize,
    /// Thin and pale, behind a smooth one.
    pub faint: bool,
    /// Where it stands on the axis, and figures.
    pub points: Vec<(f64, f64)>,
    /// Where it stands on the axis, lower and upper bound.
    pub band: Vec<(f64, f64, f64)>,
}

/// The format of an image file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Shapes and text.
    Svg,
}

impl Format {
    /// By the file's ending.
    ///
    /// # Errors
    /// Another ending.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("png") => Ok(Format::Png),
            Some("svg") => Ok(Format::Svg),
            _ => bail!("\"{}\": expected a name that ends in .png or .svg", path.display()),
        }
    }
}

impl Chart {
    /// Draws the chart into a file, PNG or SVG by its ending.
    ///
    /// # Errors
    /// Another ending, or a file that can't be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let file = match Format::of(path)? {
            Format::Png => self.png(1)?,
            Format::Svg => self.svg()?.into_bytes(),
        };
        named_file::write(path, file)
    }

    fn svg(&self) -> Result<String> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, self.size()).into_drawing_area();
        self.draw(&area)?;
        drop(area);
        Ok(text)
    }

    /// Its PNG file, `at_once` panels of which are drawn at the same time; each takes 4 MB meanwhile.
    ///
    /// # Errors
    /// What can't be drawn.
    pub fn png(&self, at_once: usize) -> Result<Vec<u8>> {
        load_fonts()?;
        let (width, height) = self.size();
        let mut whole = Pixels::white((width, height));
        let title = Pixels::drawn((width, TITLE), |area| self.draw_title(area, OVERSAMPLING))?;
        whole.put(&title, (0, 0));
        let columns = self.layout().1 as u32;
        let mut places = (0..).map(|n| (n % columns * PANEL.0, TITLE + n / columns * PANEL.1));
        for panels in self.panels.chunks(at_once.max(1)) {
            for (panel, place) in side_by_side(panels)?.iter().zip(&mut places) {
                whole.put(panel, place);
            }
        }
        let legend = self.legend();
        let below = (width, legend.rows() * ROW as u32);
        let below = Pixels::drawn(below, |area| legend.draw(area, OVERSAMPLING as i32))?;
        whole.put(&below, (0, height - below.height));
        png(&whole.bytes, width, height)
    }

    fn layout(&self) -> (usize, usize) {
        let columns = self.panels.len().clamp(1, 2);
        (self.panels.len().max(1).div_ceil(columns), columns)
    }

    fn size(&self) -> (u32, u32) {
        let (rows, columns) = self.layout();
        let legend = self.legend().rows() * ROW as u32;
        (columns as u32 * PANEL.0, rows as u32 * PANEL.1 + TITLE + legend)
    }

    /// What all panels call their lines, each once.
    fn legend(&self) -> Legend<'_> {
        let mut entries: Vec<(&str, usize)> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            let entry = (line.label.as_str(), line.colour);
            if !line.label.is_empty() && !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        let is_long = entries.iter().any(|(label, _)| label.chars().count() > LONG);
        let columns = if is_long { 1 } else { self.layout().1 };
        Legend { entries, columns }
    }

    fn draw_title<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> Result<()> {
        let (width, height) = area.dim_in_pixel();
        let middle = (width as i32 / 2, (height as f64 * 0.58) as i32);
        let title = ("sans-serif", 24 * scale, FontStyle::Bold, &TEXT).into_text_style(area);
        let title = title.pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new(self.title.as_str(), middle, title)).map_err(broken)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Result<()> {
        load_fonts()?;
        area.fill(&WHITE).map_err(broken)?;
        let (top, below) = area.split_vertically(TITLE);
        self.draw_title(&top, 1)?;
        let legend = self.legend();
        let height = below.dim_in_pixel().1 - legend.rows() * ROW as u32;
        let (panels, bottom) = below.split_vertically(height);
        for (panel, area) in self.panels.iter().zip(panels.split_evenly(self.layout())) {
            panel.draw(&area, 1)?;
        }
        legend.draw(&bottom, 1)?;
        area.present().map_err(broken)
    }
}

/// Pixels of some panels, each drawn by a thread.
fn side_by_side(panels: &[Panel]) -> Result<Vec<Pixels>> {
    let drawn = |panel: &Panel| {
        Pixels::drawn(PANEL, |area: &Area<'_>| panel.draw(area, OVERSAMPLING as i32))
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            panels.iter().map(|panel| scope.spawn(move || drawn(panel))).collect();
        let made = threads.into_iter().map(|thread| thread.join());
        made.map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// The fonts are part of the program: nothing of the system is needed.
fn load_fonts() -> Result<()> {
    use crate::render::fonts::{BOLD, REGULAR};
    for (style, data) in [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)] {
        register_font("sans-serif", style, data).map_err(|_| anyhow!("the font is damaged"))?;
    }
    Ok(())
}

impl Panel {
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, scale: i32) -> Result<()> {
        let text = |size: i32| ("sans-serif", size * scale).into_font().color(&TEXT);
        let mut chart = ChartBuilder::on(area);
        chart.margin(10 * scale).margin_right(26 * scale);
        chart.x_label_area_size(44 * scale).y_label_area_size(70 * scale);
        chart.caption(&self.title, ("sans-serif", 19 * scale, FontStyle::Bold, &TEXT));
        let (xs, ys) = (self.x_range(), self.y_range());
        let (x_size, y_size) = (xs.end - xs.start, ys.end - ys.start);
        let (x_tick, y_tick) = (|x: &f64| tick(*x, x_size), |y: &f64| tick(*y, y_size));
        let mut chart = chart.build_cartesian_2d(xs, ys).map_err(broken)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT)
            .set_all_tick_mark_size(6 * scale)
            .bold_line_style(GRID.stroke_width(scale as u32))
            .axis_style(TEXT.mix(0.6).stroke_width(scale as u32))
            .label_style(text(14))
            .axis_desc_style(text(15))
            .x_labels(7)
            .y_labels(7)
            .x_desc(self.axis.title())
            .x_label_formatter(&x_tick)
            .y_label_formatter(&y_tick);
        mesh.draw().map_err(broken)?;
        for line in &self.lines {
            line.draw(&mut chart, scale as u32)?;
        }
        if self.lines.iter().all(|line| line.points.is_empty()) {
            let (width, height) = area.dim_in_pixel();
            let style = text(16).pos(Pos::new(HPos::Center, VPos::Center));
            let middle = (width as i32 / 2 + 30 * scale, height as i32 / 2);
            area.draw(&Text::new("nothing to show yet", middle, style)).map_err(broken)?;
        }
        Ok(())
    }

    fn x_range(&self) -> Range<f64> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let end = points.map(|point| point.0).fold(self.until, f64::max);
        let start = self.axis.start();
        start..if end > start { end } else { start + 1.0 }
    }

    fn y_range(&self) -> Range<f64> {
        let points = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let bands = self.lines.iter().flat_map(|line| &line.band).flat_map(|b| [b.1, b.2]);
        let extend = |(low, high): (f64, f64), y: f64| (low.min(y), high.max(y));
        let (low, high) = points.chain(bands).fold((f64::INFINITY, f64::NEG_INFINITY), extend);
        if low > high {
            return 0.0..1.0;
        }
        let margin = if high > low { 0.06 * (high - low) } else { high.abs().max(1.0) * 0.5 };
        low - margin..high + margin
    }
}

/// What lines are called, below all panels: over a panel it would cover curves.
struct Legend<'a> {
    /// Labels with the numbers of their colours.
    entries: Vec<(&'a str, usize)>,
    columns: usize,
}

impl Legend<'_> {
    /// Rows that it needs, some room around it included.
    fn rows(&self) -> u32 {
        match self.entries.len().div_ceil(self.columns) {
            0 => 0,
            n => n as u32 + 1,
        }
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, scale: i32) -> Result<()> {
        let width = area.dim_in_pixel().0 as i32 / self.columns as i32;
        let style = ("sans-serif", 14 * scale).into_font().color(&TEXT);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let in_column = self.entries.len().div_ceil(self.columns).max(1);
        for (number, (label, colour)) in self.entries.iter().enumerate() {
            let left = (number / in_column) as i32 * width + (LEGEND_TEXT - SAMPLE - 10) * scale;
            let y = ((number % in_column) as i32 * ROW + ROW / 2) * scale;
            let stroke = Stroke::of(*colour, scale as u32);
            let ends = [(left, y), (left + SAMPLE * scale, y)];
            match stroke.dashes {
                Some([dash, gap]) => {
                    area.draw(&DashedPathElement::new(ends, dash, gap, stroke.style))
                }
                None => area.draw(&PathElement::new(ends, stroke.style)),
            }
            .map_err(broken)?;
            let at = (left + (SAMPLE + 10) * scale, y);
            area.draw(&Text::new(*label, at, style.clone())).map_err(broken)?;
        }
        Ok(())
    }
}

/// How the curves of a number are drawn.
struct Stroke {
    style: ShapeStyle,
    dashes: Option<[u32; 2]>,
}

impl Stroke {
    fn of(colour: usize, scale: u32) -> Self {
        let dashes = DASHES[colour / COLOURS.len() % DASHES.len()];
        Self {
            style: COLOURS[colour % COLOURS.len()].stroke_width(2 * scale),
            dashes: dashes.map(|lengths| lengths.map(|length| length * scale)),
        }
    }
}

type Axes<'a, DB> = ChartContext<
    'a,
    DB,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

impl Line {
    fn draw<DB: DrawingBackend>(&self, chart: &mut Axes<'_, DB>, scale: u32) -> Result<()> {
        let colour = COLOURS[self.colour % COLOURS.len()];
        if self.band.len() > 1 {
            let upper = self.band.iter().map(|(x, _, high)| (*x, *high));
            let lower = self.band.iter().rev().map(|(x, low, _)| (*x, *low));
            let outline: Vec<_> = upper.chain(lower).collect();
            let polygon = Polygon::new(outline, colour.mix(0.18).filled());
            chart.draw_series([polygon]).map_err(broken)?;
        }
        let Stroke { mut style, dashes } = Stroke::of(self.colour, scale);
        if self.faint {
            style = colour.mix(0.35).stroke_width(scale);
        }
        let points = thinned(&self.points);
        if let [point] = points[..] {
            let dot = Circle::new(point, 4 * scale, style.filled());
            chart.draw_series([dot]).map_err(broken)?;
        }
        match dashes.filter(|_| !self.faint) {
            Some([dash, gap]) => {
                let series = DashedLineSeries::new(points, dash, gap, style);
                chart.draw_series(series).map_err(broken)?
            }
            None => chart.draw_series(LineSeries::new(points, style)).map_err(broken)?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_curves_can_be_told_apart_and_are_named_once() {
        let line = |number: usize| Line {
            label: format!("setting {number}"),
            colour: number,
            points: vec![(0.0, number as f64), (1.0, number as f64)],
            ..Line::default()
        };
        let panel = || Panel { lines: (0..28).map(line).collect(), ..Panel::default() };
        let chart = Chart { title: "many".into(), panels: vec![panel(), panel()] };
        let mut styles: Vec<_> = (0..28)
            .map(|number| {
                let Stroke { style, dashes } = Stroke::of(number, 1);
                format!("{style:?} {dashes:?}")
            })
            .collect();
        styles.sort();
        styles.dedup();
        assert_eq!(styles.len(), 28);
        let legend = chart.legend();
        assert_eq!((legend.entries.len(), legend.columns, legend.rows()), (28, 2, 15));
        // Below the panels, not over them.
        assert_eq!(chart.size(), (2 * PANEL.0, PANEL.1 + TITLE + 15 * ROW as u32));
        let path = std::env::temp_dir().join(format!("warp-legend-{}.svg", std::process::id()));
        chart.save(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(svg.matches("setting 27\n").count(), 1);
    }
}

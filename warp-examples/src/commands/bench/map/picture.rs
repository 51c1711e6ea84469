//! The map as an image: a row per environment, algorithm and sharing, a column per network and number of
//! replicas, the fraction of the limit as a colour.

use super::cell::{Cell, Sharing};
use super::record::Record;
use crate::named_file;
use crate::render::fonts::{BOLD, REGULAR};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use std::path::Path;

/// Width and height of a cell, and room for names at the left and above, pixels.
const CELL: [i32; 2] = [64, 34];
const LEFT: i32 = 250;
const ABOVE: i32 = 60;
const TEXT: RGBColor = RGBColor(40, 44, 52);
/// Of what is not measured.
const NOTHING: RGBColor = RGBColor(240, 242, 245);
/// Of what was refused.
const REFUSED: RGBColor = RGBColor(205, 205, 205);
/// From a thousandth of the limit to all of it.
const COLOURS: [RGBColor; 4] =
    [RGBColor(165, 0, 38), RGBColor(253, 174, 97), RGBColor(166, 217, 106), RGBColor(0, 104, 55)];

/// Draws `records` into an SVG file.
///
/// # Errors
/// A file that can't be written.
pub(super) fn draw(records: &[&Record], path: &Path) -> Result<()> {
    let grid = Grid::of(records);
    let size = (
        (LEFT + CELL[0] * grid.columns.len() as i32 + 20) as u32,
        (ABOVE + CELL[1] * grid.rows.len() as i32 + 20) as u32,
    );
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        grid.draw(&area, records)?;
        area.present().map_err(broken)?;
    }
    named_file::write(path, text)
}

/// What a row's cells have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    world: String,
    algorithm: String,
    sharing: Sharing,
}

/// What a column's cells have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    network: String,
    replicas: usize,
}

impl Row {
    fn of(cell: &Cell) -> Self {
        let Cell { world, algorithm, sharing, .. } = cell.clone();
        Self { world, algorithm, sharing }
    }
}

impl Column {
    fn of(cell: &Cell) -> Self {
        let Cell { network, replicas, .. } = cell.clone();
        Self { network, replicas }
    }
}

/// Rows and columns that have a cell, in the order of their first ones; columns by network, then replicas.
#[derive(Debug, Default)]
struct Grid {
    rows: Vec<Row>,
    columns: Vec<Column>,
}

impl Grid {
    fn of(records: &[&Record]) -> Self {
        let mut grid = Self::default();
        for record in records {
            let (row, column) = (Row::of(&record.cell), Column::of(&record.cell));
            if !grid.rows.contains(&row) {
                grid.rows.push(row);
            }
            if !grid.columns.contains(&column) {
                grid.columns.push(column);
            }
        }
        // Wider layers have longer numbers, and deeper networks longer names.
        let width = |column: &Column| {
            let layers = column.network.split('-').map(|layer| layer.parse().unwrap_or(0));
            layers.fold((0_usize, 0_usize), |(n, widest), layer| (n + 1, widest.max(layer)))
        };
        grid.columns.sort_by_key(|column| {
            let (depth, widest) = width(column);
            (widest, depth, column.replicas)
        });
        grid
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, plotters::coord::Shift>,
        records: &[&Record],
    ) -> Result<()> {
        for (style, data) in [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)] {
            register_font("sans-serif", style, data).map_err(|_| anyhow!("the font is damaged"))?;
        }
        area.fill(&WHITE).map_err(broken)?;
        let write = |text: &str, at: [i32; 2], size: i32, to: HPos, colour: RGBColor| {
            let style = ("sans-serif", size).into_font().color(&colour);
            let style = style.pos(Pos::new(to, VPos::Center));
            area.draw(&Text::new(text.to_string(), (at[0], at[1]), style)).map_err(broken)
        };
        for (x, column) in self.columns.iter().enumerate() {
            let at = LEFT + CELL[0] * x as i32 + CELL[0] / 2;
            write(&short(&column.network), [at, 18], 13, HPos::Center, TEXT)?;
            write(&column.replicas.to_string(), [at, 40], 13, HPos::Center, TEXT)?;
        }
        for (y, row) in self.rows.iter().enumerate() {
            let middle = ABOVE + CELL[1] * y as i32 + CELL[1] / 2;
            let name = format!("{} {} {}", row.world, row.algorithm, row.sharing);
            write(&name, [LEFT - 10, middle], 13, HPos::Right, TEXT)?;
            for (x, column) in self.columns.iter().enumerate() {
                let is_here =
                    |of: &&&Record| Row::of(&of.cell) == *row && Column::of(&of.cell) == *column;
                let record = records.iter().find(is_here);
                let (left, top) = (LEFT + CELL[0] * x as i32, ABOVE + CELL[1] * y as i32);
                let corners = [(left + 1, top + 1), (left + CELL[0] - 1, top + CELL[1] - 1)];
                let colour = record.map_or(NOTHING, |record| colour(record.fraction()));
                area.draw(&Rectangle::new(corners, colour.filled())).map_err(broken)?;
                if let Some(record) = record {
                    let at = [left + CELL[0] / 2, middle];
                    write(&label(record), at, 13, HPos::Center, ink(record.fraction()))?;
                }
            }
        }
        Ok(())
    }
}

/// A network in a few characters: its width, and how many layers where they are not two.
fn short(network: &str) -> String {
    let layers: Vec<_> = network.split('-').collect();
    match layers[..] {
        [first, ..] if layers.len() != 2 => format!("{first} x {}", layers.len()),
        _ => network.into(),
    }
}

fn label(record: &Record) -> String {
    match (record.fraction(), record.figures()) {
        (Some(fraction), _) => format!("{:.1} %", 100.0 * fraction),
        (None, Some(figures)) => format!("{:.2} T", figures.tflops),
        (None, None) => "-".into(),
    }
}

fn colour(fraction: Option<f64>) -> RGBColor {
    let Some(fraction) = fraction else { return REFUSED };
    let place = ((fraction.max(1e-3).log10() + 3.0) / 3.0 * 3.0).clamp(0.0, 2.999);
    let (below, share) = (place as usize, place.fract());
    let blend = |a: u8, b: u8| (f64::from(a) * (1.0 - share) + f64::from(b) * share) as u8;
    let (a, b) = (COLOURS[below], COLOURS[below + 1]);
    RGBColor(blend(a.0, b.0), blend(a.1, b.1), blend(a.2, b.2))
}

/// What can be read on that colour.
fn ink(fraction: Option<f64>) -> RGBColor {
    match fraction {
        Some(fraction) if !(0.003..0.4).contains(&fraction) => WHITE,
        _ => TEXT,
    }
}

fn broken<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("cannot draw the map: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_a_thousandth_to_all() {
        assert_eq!(colour(Some(0.0)), COLOURS[0]);
        assert_eq!(colour(Some(0.01)), COLOURS[1]);
        assert_eq!(colour(Some(0.1)), COLOURS[2]);
        assert_eq!(colour(None), REFUSED);
        assert_eq!(short("512-512-512"), "512 x 3");
        assert_eq!(short("64-64"), "64-64");
    }
}

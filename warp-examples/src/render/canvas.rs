//! From shapes to pixels with smoothed edges, with a line of text above the image.

use super::fonts::{BOLD, REGULAR};
use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};
use anyhow::{Context, Result};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8,
    Stroke, Transform,
};
use warp_func::drawing::{Colour, Point, Scene, Shape, colours};

/// Pixels, three bytes (red, green, blue) each, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// `3 * width * height` bytes.
    pub pixels: Vec<u8>,
}

/// The text above an image: on the left in bold, on the right, and the meaning of colours below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heading {
    /// The environment's name.
    pub name: String,
    /// Step and return.
    pub status: String,
}

/// Where a scene lies among the pixels.
#[derive(Debug, Clone, Copy)]
struct Placement {
    scale: f32,
    left: f32,
    bottom: f32,
    /// Lines are never thinner, pixels.
    thinnest: f32,
}

/// A picture in the making.
struct Canvas {
    pixmap: Pixmap,
    regular: FontRef<'static>,
    bold: FontRef<'static>,
}

/// An image of a given width, as high as the scene requires, with a heading.
///
/// # Errors
/// A width for which there is no memory.
pub fn picture(scene: &Scene, heading: &Heading, width: u32) -> Result<Frame> {
    let scale = width as f32 / (scene.x.end - scene.x.start);
    let text = (width as f32 / 25.0).clamp(9.0, 26.0);
    let lines = if scene.legend.is_empty() { 1.0 } else { 2.2 };
    let top = (text * (0.8 + lines)).ceil();
    // Even, as some programs for films ask for.
    let height = ((scale * (scene.y.end - scene.y.start) + top) as u32).next_multiple_of(2);
    let mut canvas = Canvas::new(width, height)?;
    let bottom = height as f32 + scene.y.start * scale;
    let placement = Placement { scale, left: -scene.x.start * scale, bottom, thinnest: 1.0 };
    canvas.draw(scene, placement);
    canvas.heading(scene, heading, text, top);
    Ok(canvas.finish())
}

/// The scene alone, as large as fits into some pixels; `detail` times larger than it is shown, so
/// that thin lines survive the reduction.
///
/// # Errors
/// A size for which there is no memory.
pub fn fitted(scene: &Scene, width: u32, height: u32, detail: f32) -> Result<Frame> {
    let (x, y) = (scene.x.end - scene.x.start, scene.y.end - scene.y.start);
    let scale = (width as f32 / x).min(height as f32 / y);
    let mut canvas = Canvas::new(width, height)?;
    let middle = |from: f32, to: f32| 0.5 * (from + to) * scale;
    let left = 0.5 * width as f32 - middle(scene.x.start, scene.x.end);
    let bottom = 0.5 * height as f32 + middle(scene.y.start, scene.y.end);
    canvas.draw(scene, Placement { scale, left, bottom, thinnest: detail });
    Ok(canvas.finish())
}

impl Placement {
    fn at(self, (x, y): Point) -> Point {
        (self.left + x * self.scale, self.bottom - y * self.scale)
    }

    fn path(self, points: &[Point], closed: bool) -> Option<Path> {
        let mut path = PathBuilder::new();
        for (i, point) in points.iter().enumerate() {
            let (x, y) = self.at(*point);
            if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if closed {
            path.close();
        }
        path.finish()
    }
}

fn paint(Colour(red, green, blue, opacity): Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, opacity);
    paint
}

impl Canvas {
    fn new(width: u32, height: u32) -> Result<Self> {
        let mut pixmap = Pixmap::new(width, height)
            .with_context(|| format!("an image of {width} by {height} pixels is too large"))?;
        let Colour(red, green, blue, _) = colours::BACKGROUND;
        pixmap.fill(Color::from_rgba8(red, green, blue, 255));
        let font = |data| FontRef::try_from_slice(data).context("the font is damaged");
        Ok(Self { pixmap, regular: font(REGULAR)?, bold: font(BOLD)? })
    }

    /// Shapes that are nowhere (their numbers are not finite) are left out.
    fn draw(&mut self, scene: &Scene, placement: Placement) {
        let fill = |pixmap: &mut Pixmap, path: Option<Path>, colour| {
            if let Some(path) = path {
                pixmap.fill_path(
                    &path,
                    &paint(colour),
                    FillRule::Winding,
                    Transform::identity(),
                    None,
                );
            }
        };
        for shape in &scene.shapes {
            match shape {
                Shape::Polygon { points, fill: colour } => {
                    fill(&mut self.pixmap, placement.path(points, true), *colour);
                }
                Shape::Disc { centre, radius, fill: colour } => {
                    let (x, y) = placement.at(*centre);
                    let radius = (radius * placement.scale).max(0.7 * placement.thinnest);
                    fill(&mut self.pixmap, PathBuilder::from_circle(x, y, radius), *colour);
                }
                Shape::Line { points, width, colour } => {
                    let stroke = Stroke {
                        width: (width * placement.scale).max(placement.thinnest),
                        line_cap: LineCap::Round,
                        line_join: LineJoin::Round,
                        ..Stroke::default()
                    };
                    if let Some(path) = placement.path(points, false) {
                        let (paint, still) = (paint(*colour), Transform::identity());
                        self.pixmap.stroke_path(&path, &paint, &stroke, still, None);
                    }
                }
                Shape::Label { at, text, size } => {
                    let (font, size) = (self.regular.clone(), size * placement.scale);
                    let (x, y) = placement.at(*at);
                    let half = 0.5 * text_width(&font, text, size);
                    self.text(&font, text, size, (x - half, y));
                }
            }
        }
    }

    fn heading(&mut self, scene: &Scene, heading: &Heading, size: f32, height: f32) {
        let width = self.pixmap.width() as f32;
        let Colour(red, green, blue, _) = colours::GRID;
        if let Some(band) = tiny_skia::Rect::from_xywh(0.0, 0.0, width, height) {
            let paint = paint(Colour(red, green, blue, 255));
            self.pixmap.fill_rect(band, &paint, Transform::identity(), None);
        }
        let (regular, bold) = (self.regular.clone(), self.bold.clone());
        let (margin, inner) = (0.6 * size, width - 1.2 * size);
        let name = text_width(&bold, &heading.name, size);
        let status = text_width(&regular, &heading.status, size);
        // What is too wide for its line is written smaller.
        let fit = (inner / (name + status + size)).min(1.0);
        self.text(&bold, &heading.name, fit * size, (margin, 1.3 * size));
        let left = width - margin - fit * status;
        self.text(&regular, &heading.status, fit * size, (left, 1.3 * size));
        let meanings = scene.legend.iter().map(|(_, meaning)| text_width(&regular, meaning, size));
        let total: f32 = meanings.map(|meaning| meaning + 2.0 * size).sum::<f32>() - size;
        let (mut x, base, size) = (margin, 2.6 * size, (inner / total).min(1.0) * size);
        for (colour, meaning) in &scene.legend {
            let radius = 0.3 * size;
            if let Some(dot) = PathBuilder::from_circle(x + radius, base - 0.32 * size, radius) {
                let (paint, still) = (paint(*colour), Transform::identity());
                self.pixmap.fill_path(&dot, &paint, FillRule::Winding, still, None);
            }
            x += size;
            self.text(&regular, meaning, size, (x, base));
            x += text_width(&regular, meaning, size) + size;
        }
    }

    /// Writes on a base line that begins at some pixel.
    fn text(&mut self, font: &FontRef<'_>, text: &str, size: f32, (mut x, y): Point) {
        let scaled = font.as_scaled(PxScale::from(size));
        let width = self.pixmap.width() as i32;
        let height = self.pixmap.height() as i32;
        for letter in text.chars() {
            let id = scaled.glyph_id(letter);
            let glyph = id.with_scale_and_position(PxScale::from(size), point(x, y));
            x += scaled.h_advance(id);
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let corner = outline.px_bounds().min;
            let pixels = self.pixmap.pixels_mut();
            outline.draw(|dx, dy, cover| {
                let (px, py) = (corner.x as i32 + dx as i32, corner.y as i32 + dy as i32);
                if (0..width).contains(&px) && (0..height).contains(&py) {
                    let pixel = &mut pixels[(py * width + px) as usize];
                    *pixel = blended(*pixel, colours::INK, cover.clamp(0.0, 1.0));
                }
            });
        }
    }

    fn finish(self) -> Frame {
        let (width, height) = (self.pixmap.width(), self.pixmap.height());
        let colours = self.pixmap.pixels().iter();
        let pixels = colours.flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
        Frame { width, height, pixels }
    }
}

/// How wide a text is, pixels.
fn text_width(font: &FontRef<'_>, text: &str, size: f32) -> f32 {
    let scaled = font.as_scaled(PxScale::from(size));
    text.chars().map(|letter| scaled.h_advance(scaled.glyph_id(letter))).sum()
}

/// An opaque pixel, partly covered by a colour.
fn blended(under: PremultipliedColorU8, over: Colour, cover: f32) -> PremultipliedColorU8 {
    let mix = |under: u8, over: u8| {
        (f32::from(under) + (f32::from(over) - f32::from(under)) * cover).round() as u8
    };
    let Colour(red, green, blue, _) = over;
    let mixed = (mix(under.red(), red), mix(under.green(), green), mix(under.blue(), blue));
    PremultipliedColorU8::from_rgba(mixed.0, mixed.1, mixed.2, 255).unwrap_or(under)
}

//! The content of an image, before it is rasterised: shapes in the units of the environment.

use std::ops::Range;

/// A place; y grows upwards.
pub type Point = (f32, f32);

/// Red, green, blue and opacity, 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8, pub u8);

/// The colours that scenes share.
pub mod colours {
    use super::Colour;

    /// Paper.
    pub const BACKGROUND: Colour = Colour(250, 250, 252, 255);
    /// Text and outlines.
    pub const INK: Colour = Colour(40, 44, 52, 255);
    /// What does not move.
    pub const GROUND: Colour = Colour(120, 128, 140, 255);
    /// Lines that only guide the eye.
    pub const GRID: Colour = Colour(222, 226, 232, 255);
    /// What the agent moves, and taggers.
    pub const RED: Colour = Colour(213, 72, 40, 255);
    /// The other part of it, and runners.
    pub const BLUE: Colour = Colour(0, 114, 178, 255);
    /// Goals.
    pub const GREEN: Colour = Colour(0, 158, 115, 255);
    /// What pushes.
    pub const AMBER: Colour = Colour(230, 159, 0, 255);
    /// Who has left.
    pub const GONE: Colour = Colour(196, 201, 209, 255);
}

/// A shape to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A filled area.
    Polygon {
        /// Its corners.
        points: Vec<Point>,
        /// What it is filled with.
        fill: Colour,
    },
    /// A line through some points, with round ends.
    Line {
        /// The points.
        points: Vec<Point>,
        /// How thick it is.
        width: f32,
        /// Its colour.
        colour: Colour,
    },
    /// A filled circle.
    Disc {
        /// Its centre.
        centre: Point,
        /// Its radius.
        radius: f32,
        /// What it is filled with.
        fill: Colour,
    },
    /// A word, centred.
    Label {
        /// The middle of its base line.
        at: Point,
        /// What it says.
        text: String,
        /// How high its line is.
        size: f32,
    },
}

/// An image in the units of the environment. Later shapes cover earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// What is shown from left to right.
    pub x: Range<f32>,
    /// What is shown from bottom to top.
    pub y: Range<f32>,
    /// What there is to be seen.
    pub shapes: Vec<Shape>,
    /// What colours mean.
    pub legend: Vec<(Colour, String)>,
}

impl Scene {
    /// An empty scene.
    #[must_use]
    pub fn new(x: Range<f32>, y: Range<f32>) -> Self {
        Self { x, y, shapes: Vec::new(), legend: Vec::new() }
    }

    /// Adds a filled area.
    pub fn polygon(&mut self, points: &[Point], fill: Colour) {
        self.shapes.push(Shape::Polygon { points: points.to_vec(), fill });
    }

    /// Adds an upright rectangle between two corners.
    pub fn rectangle(&mut self, a: Point, b: Point, fill: Colour) {
        self.polygon(&[a, (b.0, a.1), b, (a.0, b.1)], fill);
    }

    /// Adds a line.
    pub fn line(&mut self, points: &[Point], width: f32, colour: Colour) {
        self.shapes.push(Shape::Line { points: points.to_vec(), width, colour });
    }

    /// Adds a filled circle.
    pub fn disc(&mut self, centre: Point, radius: f32, fill: Colour) {
        self.shapes.push(Shape::Disc { centre, radius, fill });
    }

    /// Adds a word.
    pub fn label(&mut self, at: Point, text: impl Into<String>, size: f32) {
        self.shapes.push(Shape::Label { at, text: text.into(), size });
    }

    /// Adds an arrow; its head is in proportion to its width.
    pub fn arrow(&mut self, from: Point, to: Point, width: f32, colour: Colour) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        if length <= 0.0 {
            return;
        }
        let (ux, uy) = (dx / length, dy / length);
        let head = (3.0 * width).min(length);
        let (bx, by) = (to.0 - ux * head, to.1 - uy * head);
        self.line(&[from, (bx, by)], width, colour);
        let side = |s: f32| (bx - uy * head * s, by + ux * head * s);
        self.polygon(&[to, side(0.7), side(-0.7)], colour);
    }
}

/// `point` rotated around the origin by `angle` and translated by `to`.
#[must_use]
pub fn placed((x, y): Point, angle: f32, to: Point) -> Point {
    let (sin, cos) = angle.sin_cos();
    (to.0 + x * cos - y * sin, to.1 + x * sin + y * cos)
}

//! Pictures of environments: a scene of shapes for each, its pixels, and the files made of them.
//!
//! A drawing is a function from what is in the arrays to a [`Scene`]. One in the registry comes first, then
//! the one that is built in; an environment that has neither shows its observations as bars.

mod acrobot;
mod bars;
mod canvas;
mod cartpole;
mod catalysis;
mod covid19;
pub(crate) mod fonts;
pub mod gif;
mod mountain_car;
mod palette;
mod past;
mod pendulum;
pub(crate) mod png;
mod rice_n;
pub mod strip;
mod tag_continuous;
mod tag_gridworld;
pub mod terminal;
mod toy_text;

pub use canvas::{Frame, Heading, fitted, picture};
pub use past::Past;
use warp_func::drawing::Drawing;
pub use warp_func::drawing::{Colour, Scene, View, colours};

/// As a [`Drawing`], with what the episode has been so far.
type DrawingWithPast = fn(&View<'_>, &Past) -> Option<Scene>;

/// By environment.
const DRAWINGS: [(&str, DrawingWithPast); 17] = [
    ("acrobot", |view, _| acrobot::draw(view)),
    ("blackjack", |view, _| toy_text::blackjack(view)),
    ("cartpole", |view, _| cartpole::draw(view)),
    ("catalysis", catalysis::draw),
    ("catalysis_two_atoms", catalysis::draw),
    ("catch", |view, _| toy_text::catch(view)),
    ("cliff_walking", |view, _| toy_text::cliff_walking(view)),
    ("continuous_mountain_car", |view, _| mountain_car::draw_continuous(view)),
    ("covid19", |view, past| covid19::draw(view, past.days())),
    ("frozen_lake", |view, _| toy_text::frozen_lake(view)),
    ("mountain_car", |view, _| mountain_car::draw(view)),
    ("nchain", |view, _| toy_text::nchain(view)),
    ("pendulum", |view, _| pendulum::draw(view)),
    ("rice_n", |view, past| rice_n::draw(view, past.days())),
    ("tag_continuous", |view, _| tag_continuous::draw(view)),
    ("tag_gridworld", |view, _| tag_gridworld::draw(view)),
    ("taxi", |view, _| toy_text::taxi(view)),
];

/// A moment of an episode: what is to be seen, and what is written above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// What is to be seen.
    pub scene: Scene,
    /// What is written above it.
    pub heading: Heading,
}

impl Moment {
    /// The first replica as it is now, after `past`, which includes it; drawn by `drawing`, if there is
    /// one, else as this crate knows it.
    #[must_use]
    pub fn of(view: &View<'_>, past: &Past, drawing: Option<Drawing>) -> Self {
        let spec = view.spec();
        let built_in = || {
            let (_, draw) = DRAWINGS.iter().find(|(name, _)| *name == spec.name)?;
            draw(view, past)
        };
        let scene = drawing.map_or_else(built_in, |draw| draw(view));
        let mut scene = scene.unwrap_or_else(|| bars::draw(view));
        let step = view.step();
        let status = if spec.groups.len() == 1 {
            format!("step {step}   return {}", tenths(view.group_return(0)))
        } else {
            scene.legend = with_returns(view, scene.legend);
            format!("step {step}")
        };
        Self { scene, heading: Heading { name: spec.name.clone(), status } }
    }

    /// Step and returns as one line of text.
    #[must_use]
    pub fn summary(&self) -> String {
        let legend = self.scene.legend.iter().map(|(_, meaning)| meaning.clone());
        let parts = [self.heading.status.replace("   ", ", ")].into_iter().chain(legend);
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Its image, with a given width in pixels.
    ///
    /// # Errors
    /// A width for which there is no memory.
    pub fn picture(&self, width: u32) -> anyhow::Result<Frame> {
        picture(&self.scene, &self.heading, width)
    }
}

/// The legend with every group's return; the groups come first in it, in their order.
fn with_returns(view: &View<'_>, legend: Vec<(Colour, String)>) -> Vec<(Colour, String)> {
    let groups = view.spec().groups.iter().enumerate().map(|(g, group)| {
        let colour = legend.get(g).map_or(colours::INK, |(colour, _)| *colour);
        (colour, format!("{} return {}", group.name, tenths(view.group_return(g))))
    });
    groups.chain(legend.iter().skip(view.spec().groups.len()).cloned()).collect()
}

/// A number with one digit after the point, never "-0.0".
fn tenths(number: f32) -> String {
    format!("{:.1}", (10.0 * number).round() / 10.0 + 0.0)
}

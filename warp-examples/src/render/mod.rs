//! Pictures of environments: a scene of shapes for each, its pixels, and the files made of them.
//!
//! A drawing is a function from what is in the arrays to a [`Scene`]. An environment that has none, a
//! user's own, shows its observations as bars.

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
pub mod scene;
pub mod strip;
mod tag_continuous;
mod tag_gridworld;
pub mod terminal;
mod view;

pub use canvas::{Frame, Heading, fitted, picture};
pub use past::Past;
pub use scene::{Colour, Scene, colours};
pub use view::View;

/// Draws an environment; `None` where its arrays are not those that the drawing knows.
type Drawing = fn(&View<'_>) -> Option<Scene>;

/// By environment.
const DRAWINGS: [(&str, Drawing); 10] = [
    ("acrobot", acrobot::draw),
    ("cartpole", cartpole::draw),
    ("catalysis", catalysis::draw),
    ("catalysis_two_atoms", catalysis::draw),
    ("continuous_mountain_car", mountain_car::draw_continuous),
    ("covid19", covid19::draw),
    ("mountain_car", mountain_car::draw),
    ("pendulum", pendulum::draw),
    ("tag_continuous", tag_continuous::draw),
    ("tag_gridworld", tag_gridworld::draw),
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
    /// The first replica as it is now.
    #[must_use]
    pub fn of(view: &View<'_>) -> Self {
        let spec = view.spec();
        let drawing = DRAWINGS.iter().find(|(name, _)| *name == spec.name);
        let mut scene =
            drawing.and_then(|(_, draw)| draw(view)).unwrap_or_else(|| bars::draw(view));
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

    /// Its picture, so many pixels wide.
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

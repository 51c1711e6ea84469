//! Strips over time, one per state in each panel: stringency, infections, unemployment, rewards.
//!
//! Time runs from left to right over the whole episode, states from top to bottom in the order of
//! their names. Darker is more.

use std::ops::Range;
use warp_func::drawing::{Colour, Scene, View, colours};

/// What the panels show, and the shade of the most.
const PANELS: [(&str, [f32; 3]); QUANTITIES] = [
    ("stringency", [40.0, 44.0, 52.0]),
    ("infected", [213.0, 72.0, 40.0]),
    ("unemployed", [0.0, 84.0, 150.0]),
    ("reward", [0.0, 128.0, 92.0]),
];
/// Quantities that are kept of every day.
const QUANTITIES: usize = 4;
/// The shade of the least.
const LEAST: [f32; 3] = [238.0, 240.0, 244.0];
/// Shades: few, so that a strip has few parts.
const SHADES: f32 = 10.0;
/// Parts into which the time of an episode is cut.
const SPANS: usize = 60;
/// Infected at which a strip is darkest, per inhabitant; its root is shown.
const MOST_INFECTED: f32 = 0.1;
/// Unemployed at which a strip is darkest, per inhabitant.
const MOST_UNEMPLOYED: f32 = 0.2;
/// Rewards from light to dark.
const REWARDS: Range<f32> = 0.0..1.25;
/// A panel, and the distance to the next.
pub(super) const SIZE: (f32, f32) = (1.0, 0.72);
pub(super) const STEP: (f32, f32) = (1.06, 0.88);

/// A day of all states: per quantity how dark each state is, 0 to 1.
pub(super) type Day = [Vec<f32>; QUANTITIES];

/// The day that `view` shows; `None`: it shows another environment.
pub(super) fn day(view: &View<'_>) -> Option<Day> {
    if view.spec().name != "covid19" {
        return None;
    }
    let group = view.spec().groups.first()?;
    let flat = group.observation.flatten();
    let people = flat.entries.iter().find(|entry| entry.path == "world-agent_state")?.offset;
    let seen = view.array::<f32>("obs.governor")?;
    let of = |element: usize, dark: &dyn Fn(f32) -> f32| {
        let rows = seen.chunks_exact(flat.width);
        rows.map(|row| row.get(people + element).map_or(0.0, |x| dark(*x))).collect()
    };
    let levels = view.array::<i32>("stringency_level")?;
    let rewards = view.array::<f32>("reward.governor")?;
    let reward = |r: &f32| (r - REWARDS.start) / (REWARDS.end - REWARDS.start);
    Some([
        levels.iter().map(|level| (*level - 1) as f32 / 9.0).collect(),
        of(1, &|part| (part / MOST_INFECTED).sqrt()),
        of(5, &|part| part / MOST_UNEMPLOYED),
        rewards.iter().map(reward).collect(),
    ])
}

pub(super) fn draw(view: &View<'_>, days: &[Day]) -> Option<Scene> {
    if days.is_empty() {
        return None;
    }
    let length = view.spec().time_limit.steps as usize;
    let mut scene = Scene::new(-0.04..STEP.0 + SIZE.0 + 0.04, -STEP.1..STEP.1);
    for (n, (name, most)) in PANELS.iter().enumerate() {
        let left = STEP.0 * (n % 2) as f32;
        let bottom = if n < 2 { 0.02 } else { 0.02 - STEP.1 };
        scene.label((left + 0.5 * SIZE.0, bottom + SIZE.1 + 0.03), *name, 0.1);
        let frame = ((left, bottom), (left + SIZE.0, bottom + SIZE.1));
        scene.rectangle(frame.0, frame.1, colours::GRID);
        for state in 0..days[0][n].len() {
            strip(&mut scene, days, (n, state, length), ((left, bottom), *most));
        }
    }
    scene.legend = vec![(colours::RED, String::new()), (colours::BLUE, String::new())];
    Some(scene)
}

/// One state's strip, its equal parts in one piece each.
pub(super) fn strip(
    scene: &mut Scene,
    days: &[Day],
    (quantity, state, length): (usize, usize, usize),
    ((left, bottom), most): ((f32, f32), [f32; 3]),
) {
    let states = days[0][quantity].len() as f32;
    let top = bottom + SIZE.1 * (1.0 - state as f32 / states);
    let low = top - SIZE.1 / states;
    let spans = SPANS.min(length);
    let first_day = |span: usize| span * length / spans;
    // What is not a number, as beyond the end of replayed data, is as light as nothing.
    let shade = |span: &usize| {
        let dark = days[first_day(*span)][quantity][state].clamp(0.0, 1.0);
        if dark.is_nan() { 0 } else { (dark * SHADES).round() as u8 }
    };
    let known: Vec<usize> = (0..spans).filter(|span| first_day(*span) < days.len()).collect();
    for piece in known.chunk_by(|a, b| shade(a) == shade(b)) {
        let (from, to) = (piece[0] as f32, (piece[0] + piece.len()) as f32);
        let x = |span: f32| left + SIZE.0 * span / spans as f32;
        scene.rectangle((x(from), low), (x(to), top), mixed(most, shade(&piece[0])));
    }
}

/// A colour between the least and the most.
fn mixed(most: [f32; 3], shade: u8) -> Colour {
    let part = f32::from(shade) / SHADES;
    let [red, green, blue] = [0, 1, 2].map(|i| (LEAST[i] + (most[i] - LEAST[i]) * part) as u8);
    Colour(red, green, blue, 255)
}

//! Warmth and carbon as curves over time, output and mitigation as a strip for each region.
//!
//! Time runs from left to right over the whole episode, regions from top to bottom in their order.

use super::covid19::{Day, SIZE, STEP, strip};
use warp_func::drawing::{Colour, Scene, View, colours};

/// A panel with a curve: what is shown, from where to where, and how its last number is written.
struct Curve {
    name: &'static str,
    low: f32,
    high: f32,
    unit: &'static str,
    decimals: usize,
    colour: Colour,
}

const CURVES: [Curve; 2] = [
    Curve { name: "warming", low: 0.0, high: 8.0, unit: "K", decimals: 1, colour: colours::RED },
    Curve {
        name: "carbon in the air",
        low: 600.0,
        high: 5_000.0,
        unit: "Gt",
        decimals: 0,
        colour: colours::INK,
    },
];
/// Panels with strips, and the shade of the most.
const STRIPS: [(&str, [f32; 3]); 2] =
    [("output", [0.0, 84.0, 150.0]), ("mitigation", [0.0, 128.0, 92.0])];
/// Output at which a strip is darkest, trillion USD a year; its root is shown.
const MOST_OUTPUT: f32 = 60.0;

/// The moment that `view` shows, each number from 0 to 1; `None`: it shows another environment.
pub(super) fn day(view: &View<'_>) -> Option<Day> {
    if view.spec().name != "rice_n" {
        return None;
    }
    let part = |name: &str, curve: usize| {
        let Curve { low, high, .. } = CURVES[curve];
        Some(vec![(view.number(name)? - low) / (high - low)])
    };
    let output = view.array::<f32>("gross_output")?;
    Some([
        part("global_temperature", 0)?,
        part("global_carbon_mass", 1)?,
        output.iter().map(|output| (output / MOST_OUTPUT).max(0.0).sqrt()).collect(),
        view.array::<f32>("mitigation_rate")?.to_vec(),
    ])
}

pub(super) fn draw(view: &View<'_>, days: &[Day]) -> Option<Scene> {
    if days.is_empty() {
        return None;
    }
    let length = view.spec().time_limit.steps as usize;
    let mut scene = Scene::new(-0.04..STEP.0 + SIZE.0 + 0.04, -STEP.1..STEP.1);
    for panel in 0..4 {
        let (left, bottom) =
            (STEP.0 * (panel % 2) as f32, if panel < 2 { 0.02 } else { 0.02 - STEP.1 });
        scene.rectangle((left, bottom), (left + SIZE.0, bottom + SIZE.1), colours::GRID);
        let name = match CURVES.get(panel) {
            Some(Curve { name, low, high, unit, decimals, colour }) => {
                let point = |(t, day): (usize, &Day)| {
                    let height = day[panel][0].clamp(0.0, 1.0);
                    (left + SIZE.0 * t as f32 / length as f32, bottom + SIZE.1 * height)
                };
                let points: Vec<_> = days.iter().enumerate().map(point).collect();
                scene.line(&points, 0.015, *colour);
                let now = days.last().map_or(0.0, |day| low + (high - low) * day[panel][0]);
                format!("{name}: {now:.decimals$} {unit}")
            }
            None => {
                let (name, most) = STRIPS[panel - 2];
                for region in 0..days[0][panel].len() {
                    strip(&mut scene, days, (panel, region, length), ((left, bottom), most));
                }
                name.to_string()
            }
        };
        scene.label((left + 0.5 * SIZE.0, bottom + SIZE.1 + 0.03), name, 0.09);
    }
    Some(scene)
}

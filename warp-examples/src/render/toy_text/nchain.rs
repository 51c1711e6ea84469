//! The chain of states, with the way that the last step took.

use super::field;
use warp_func::drawing::{Scene, View, colours};

pub(crate) fn draw(view: &View<'_>) -> Option<Scene> {
    let state = field(view, "state")?;
    let mut scene = Scene::new(-0.7..4.7, -0.9..1.1);
    scene.line(&[(0.0, 0.0), (4.0, 0.0)], 0.05, colours::GRID);
    for place in 0..5 {
        let here = place == state;
        let colour = if here { colours::RED } else { colours::GONE };
        scene.disc((place as f32, 0.0), if here { 0.36 } else { 0.26 }, colour);
        scene.label((place as f32, -0.75), place.to_string(), 0.28);
    }
    let reward = view.array::<f32>("reward.walker")?.first().copied().unwrap_or(0.0);
    if view.step() > 0 {
        scene.label((state as f32, 0.6), format!("+{reward}"), 0.34);
    }
    scene.legend = vec![(colours::RED, "walker".into())];
    Some(scene)
}

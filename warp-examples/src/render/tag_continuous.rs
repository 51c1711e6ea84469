//! The plane with taggers, runners and tagged runners, each pointing where it heads.

use warp_func::drawing::{Colour, Scene, View, colours, placed};

pub(super) fn draw(view: &View<'_>) -> Option<Scene> {
    let (xs, ys) = (view.array::<f32>("loc_x")?, view.array::<f32>("loc_y")?);
    let headings = view.array::<f32>("direction")?;
    let in_game = view.array::<i32>("still_in_the_game")?;
    let side = view.key("grid_length")?;
    let n_taggers = view.spec().groups.first()?.n_agents;
    let margin = 0.04 * side;
    let mut scene = Scene::new(-margin..side + margin, -margin..side + margin);
    let corners = [(0.0, 0.0), (side, 0.0), (side, side), (0.0, side), (0.0, 0.0)];
    scene.line(&corners, 0.006 * side, colours::GROUND);
    let size = side * (0.2 / (xs.len() as f32).sqrt()).clamp(0.015, 0.035);
    let reach = view.key("tagging_distance")? * side;
    let agents = || xs.iter().zip(ys).zip(headings).zip(in_game).enumerate();
    for (i, (((x, y), _), _)) in agents() {
        if i < n_taggers {
            let Colour(red, green, blue, _) = colours::RED;
            scene.disc((*x, *y), reach, Colour(red, green, blue, 40));
        }
    }
    // Those who have left lie below the others, taggers above.
    let tagged = |i: usize, in_game: &i32| i >= n_taggers && *in_game == 0;
    for (i, (((x, y), _), playing)) in agents() {
        if tagged(i, playing) {
            scene.disc((*x, *y), 0.5 * size, colours::GONE);
        }
    }
    let mut left = 0;
    let order = agents().skip(n_taggers).chain(agents().take(n_taggers));
    for (i, (((x, y), heading), playing)) in order {
        if tagged(i, playing) {
            continue;
        }
        let is_tagger = i < n_taggers;
        left += usize::from(!is_tagger);
        let at = |point: (f32, f32)| placed((point.0 * size, point.1 * size), *heading, (*x, *y));
        let body = [(1.2, 0.0), (-0.8, 0.75), (-0.4, 0.0), (-0.8, -0.75)].map(at);
        scene.polygon(&body, if is_tagger { colours::RED } else { colours::BLUE });
    }
    scene.legend = vec![
        (colours::RED, "tagger".into()),
        (colours::BLUE, "runner".into()),
        (colours::GONE, format!("{} tagged", xs.len().saturating_sub(n_taggers + left))),
    ];
    Some(scene)
}

//! Pictures: every environment's film and strip, what is refused, and environments without a drawing.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::collections::HashSet;
use warp_command::{Folder, Said};
use warp_core::toml::Table;
use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, LimitEnds, Observation, Result, Space, StepOut,
    TimeLimit,
};
use warp_envs::{Registry, VecOptions};
use warp_examples::render::{Moment, Past, Scene, View, colours};
use warp_func::drawing::Shape;

/// The steps that a command says it has drawn.
fn steps(said: &Said) -> usize {
    let after = said.stdout.split_once("(step ").unwrap().1;
    after.split([',', ')']).next().unwrap().parse().unwrap()
}

/// The frames of a GIF file, each as a whole picture of numbers of colours.
fn frames(data: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = gif::DecodeOptions::new().read_info(data).unwrap();
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let (mut picture, mut frames) = (vec![0; width * height], Vec::new());
    while let Some(frame) = decoder.read_next_frame().unwrap() {
        for (y, row) in frame.buffer.chunks_exact(usize::from(frame.width)).enumerate() {
            let start = (usize::from(frame.top) + y) * width + usize::from(frame.left);
            for (pixel, number) in picture[start..].iter_mut().zip(row) {
                if frame.transparent != Some(*number) {
                    *pixel = *number;
                }
            }
        }
        frames.push(picture.clone());
    }
    frames
}

/// Width, height and pixels of a PNG file.
fn png(data: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(data)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

#[test]
fn every_environment_has_a_film_and_a_strip() {
    let folder = Folder::new("films");
    for entry in warp_envs::registry().entries() {
        let (env, run) = (entry.name, format!("run-{}", entry.name));
        folder.done(&[
            "train",
            env,
            "--set=num_envs=2",
            "--set=num_steps=8",
            "--set=num_minibatches=1",
            "--set=hidden=[8]",
            "--steps=16",
            "--out",
            &run,
        ]);
        let film = format!("{env}.gif");
        let part = ["--steps", "30", "--size", "200", "--stochastic"];
        let said = folder.done(&[&["render", &run, "-o", &film], &part[..]].concat());
        let drawn = steps(&said);
        let frames = frames(&std::fs::read(folder.path(&film)).unwrap());
        assert!(drawn > 0 && frames.len() == drawn + 1, "{env}: {drawn} {}", frames.len());
        // The step is written in, so no two frames are alike.
        let distinct: HashSet<&Vec<u8>> = frames.iter().collect();
        assert_eq!(distinct.len(), frames.len(), "{env}");
        let strip = format!("{env}.png");
        let part = ["--steps", "30", "--size", "120", "--frames", "6"];
        let said = folder.done(&[&["render", &run, "-o", &strip], &part[..]].concat());
        // A game of cards may be over after a step or two.
        let shown = 4.min(steps(&said) as u32 + 1);
        let (width, height, pixels) = png(&std::fs::read(folder.path(&strip)).unwrap());
        assert!(width >= shown * 120 && height > 60, "{env}: {width} {height}");
        let colours: HashSet<&[u8]> = pixels.chunks(3).collect();
        assert!(colours.len() > 20, "{env}: {} colours", colours.len());
    }
}

#[test]
fn the_episode_is_the_first_one_of_an_evaluation() {
    let folder = Folder::new("first");
    folder.train(&["--steps", "512", "--out", "run"]);
    for how in [&["--stochastic"][..], &["--random", "pole"], &[]] {
        let said = folder.done(&[&["render", "run", "-o", "a.gif", "--size=64"], how].concat());
        let eval = [&["eval", "run", "--episodes", "1", "--json"], how].concat();
        let length = folder.done(&eval).json()["mean_episode_length"].as_f64().unwrap();
        assert_eq!(steps(&said) as f64, length, "{how:?}");
    }
    // Another seed starts elsewhere; the same one draws the same film.
    let film = |seed: &str| {
        folder.done(&["render", "run", "-o", "b.gif", "--size=64", "--seed", seed]);
        std::fs::read(folder.path("b.gif")).unwrap()
    };
    assert!(film("1") == film("1") && film("1") != film("2"));
}

#[test]
fn what_can_not_be_drawn_is_refused() {
    let folder = Folder::new("undrawn");
    folder.train(&["--steps", "128", "--out", "run"]);
    let refused = |arguments: &[&str], wanted: &str| {
        let said = folder.warp(arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(wanted), "{said:?}");
    };
    let render = |out: &str, more: &[&str], wanted: &str| {
        refused(&[&["render", "run", "-o", out], more].concat(), wanted);
    };
    render("a.mp4", &[], "\"a.mp4\": expected a name that ends in .gif or .png");
    render("nowhere/a.gif", &[], "cannot write \"nowhere/a.gif\"");
    render("a.gif", &["--random", "ghost"], "there is no policy \"ghost\"; there are pole");
    render("a.gif", &["--fps", "0"], "--fps 0: a whole number from 1 to 100 is needed");
    render("a.gif", &["--size", "9"], "--size 9: a whole number from 64 to 2048 is needed");
    refused(&["render", "nowhere", "-o", "a.gif"], "cannot read a run's \"nowhere/config.toml\"");
    refused(&["watch", "run"], "warp watch needs a terminal");
    assert!(!folder.path("a.gif").exists());
}

warp_core::config! {
    /// One key.
    pub struct NothingConfig {
        /// Not used.
        pub unused: i32 = 0,
    }
}

warp_core::params! {
    /// One number, since there must be one.
    pub struct NothingParams {
        /// Not used.
        unused: i32,
    }
}

warp_core::state! {
    /// One number.
    pub struct NothingState {
        /// Counts steps.
        count: i32,
    }
}

/// An environment that is called as one with a drawing and has other arrays.
#[derive(Debug)]
struct Impostor(NothingParams);

impl Env for Impostor {
    const NAME: &'static str = "cartpole";
    const OBSERVATION_WIDTH: usize = 3;
    type Config = NothingConfig;
    type Params = NothingParams;
    type State = NothingState;

    fn new(config: &NothingConfig) -> Result<Self> {
        Ok(Self(NothingParams { unused: config.unused }))
    }

    fn spec(&self) -> EnvSpec {
        let group = GroupSpec {
            name: "agent".into(),
            n_agents: 1,
            observation: Space::boxed(-1.0, 1.0, &[3]),
            action: Space::Discrete { n: 2 },
            mortal: false,
        };
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![group],
            time_limit: TimeLimit { steps: 9, ends: LimitEnds::Truncated },
            statistics: Vec::new(),
            global_observation: None,
        }
    }

    fn params(&self) -> &NothingParams {
        &self.0
    }

    fn reset(&self, state: &mut NothingState, _: &mut Draw) {
        state.count = 0;
    }

    fn observe(&self, _: &NothingState, out: &mut Observation<'_>) {
        out.obs[0].copy_from_slice(&[0.5, -1.0, f32::NAN]);
    }

    fn step(&self, state: &mut NothingState, _: &Actions<'_>, _: &mut Draw, _: &mut StepOut<'_>) {
        state.count += 1;
    }
}

/// What is drawn of an environment, and whether it is its observations as bars: those have the name of
/// their group beside them.
fn scene(registry: &Registry, env: &str) -> (Scene, bool) {
    let entry = registry.get(env).unwrap();
    let mut envs = entry.make(&Table::new(), &VecOptions::default()).unwrap();
    envs.step().unwrap();
    let (config, spec) = entry.describe(&Table::new()).unwrap();
    let (view, mut past) = (View::new(&*envs, &config), Past::default());
    past.record(&view);
    let moment = Moment::of(&view, &past, entry.drawing);
    // Action 0 is to stick, which ends a game of blackjack, and the next one has begun.
    let step = if env == "blackjack" { "step 0, " } else { "step 1, " };
    assert!(moment.summary().starts_with(step), "{}", moment.summary());
    assert!(moment.picture(200).unwrap().pixels.len() > 200 * 60 * 3);
    let group = &spec.groups[0].name;
    let names_it =
        |shape: &Shape| matches!(shape, Shape::Label { text, .. } if text.starts_with(group));
    let is_bars = moment.scene.shapes.iter().any(names_it);
    (moment.scene, is_bars)
}

#[test]
fn an_environment_without_a_drawing_shows_its_observations() {
    let registry = warp_envs::registry();
    for entry in registry.entries() {
        let (_, is_bars) = scene(&registry, entry.name);
        assert!(!is_bars, "{} has no drawing", entry.name);
    }
    let (scene, is_bars) = scene(&Registry::new().with::<Impostor>(), "cartpole");
    assert!(is_bars);
    // A label, a bar for each number, a base line.
    assert_eq!(scene.shapes.len(), 5);
}

#[test]
fn a_drawing_in_the_registry_comes_first() {
    fn circle(view: &View<'_>) -> Option<Scene> {
        let count = view.array::<i32>("count")?[0];
        let mut scene = Scene::new(0.0..1.0, 0.0..1.0);
        scene.disc((0.5, 0.5), 0.1 * count as f32, colours::RED);
        Some(scene)
    }
    let registry = Registry::new().with_drawing::<Impostor>(circle);
    let (drawn, is_bars) = scene(&registry, "cartpole");
    assert!(!is_bars);
    let disc = Shape::Disc { centre: (0.5, 0.5), radius: 0.1, fill: colours::RED };
    assert_eq!(drawn.shapes, [disc]);
    // One that does not know the arrays leaves the bars, and never draws another's picture.
    let (_, is_bars) = scene(&Registry::new().with_drawing::<Impostor>(|_| None), "cartpole");
    assert!(is_bars);
}

//! Boards of square cells: row 0 is at the top.

use super::field;
use warp_core::{Config, Env, TableData};
use warp_envs::frozen_lake::{FrozenLake, FrozenLakeConfig};
use warp_func::drawing::{Colour, Point, Scene, View, colours};

/// Water, and a cliff.
const DEPTH: Colour = Colour(150, 190, 222, 255);
/// What is drawn on the four places of the taxi: red, green, yellow, blue.
const PLACES: [(i32, Colour); 4] =
    [(0, colours::RED), (4, colours::GREEN), (20, colours::AMBER), (23, colours::BLUE)];
/// To the right of which cells of the taxi's board a wall stands: row and column.
const WALLS: [(i32, i32); 6] = [(0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)];

/// A board and the scene that it is drawn in; a cell is one wide.
struct Board {
    scene: Scene,
    rows: i32,
    columns: i32,
}

impl Board {
    fn new(rows: i32, columns: i32) -> Self {
        let (width, height) = (columns as f32, rows as f32);
        let mut scene = Scene::new(-0.4..width + 0.4, -0.4..height + 0.4);
        // So many lines that they would touch are left out.
        if rows.max(columns) <= 60 {
            for x in 0..=columns {
                scene.line(&[(x as f32, 0.0), (x as f32, height)], 0.03, colours::GRID);
            }
            for y in 0..=rows {
                scene.line(&[(0.0, y as f32), (width, y as f32)], 0.03, colours::GRID);
            }
        }
        let corners = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height), (0.0, 0.0)];
        scene.line(&corners, 0.06, colours::GROUND);
        Self { scene, rows, columns }
    }

    /// The middle of a cell.
    fn middle(&self, cell: i32) -> Point {
        let (row, column) = (cell / self.columns, cell % self.columns);
        (column as f32 + 0.5, (self.rows - 1 - row) as f32 + 0.5)
    }

    fn fill(&mut self, cell: i32, part: f32, colour: Colour) {
        let ((x, y), half) = (self.middle(cell), 0.5 * part);
        self.scene.rectangle((x - half, y - half), (x + half, y + half), colour);
    }

    fn disc(&mut self, cell: i32, radius: f32, colour: Colour) {
        let middle = self.middle(cell);
        self.scene.disc(middle, radius, colour);
    }
}

pub(crate) fn frozen_lake(view: &View<'_>) -> Option<Scene> {
    let elf = field(view, "state")?;
    let env = FrozenLake::new(&FrozenLakeConfig::from_table(view.config()).ok()?).ok()?;
    let tables = env.tables();
    let cells = |name| match tables.iter().find(|table| table.name == name)?.data {
        TableData::I32(cells) => Some(cells),
        TableData::F32(_) => None,
    };
    let (tiles, starts) = (cells("tiles")?, cells("starts")?);
    let params = env.params();
    let mut board = Board::new(params.rows, params.columns);
    for (cell, tile) in tiles.iter().enumerate() {
        match tile {
            1 => board.fill(cell as i32, 0.92, DEPTH),
            2 => board.fill(cell as i32, 0.5, colours::GREEN),
            _ => {}
        }
    }
    starts.iter().for_each(|cell| board.fill(*cell, 0.5, colours::GONE));
    board.disc(elf, 0.3, colours::RED);
    board.scene.legend =
        vec![(colours::RED, "elf".into()), (DEPTH, "hole".into()), (colours::GREEN, "goal".into())];
    Some(board.scene)
}

pub(crate) fn cliff_walking(view: &View<'_>) -> Option<Scene> {
    let walker = field(view, "state")?;
    let mut board = Board::new(4, 12);
    (37..47).for_each(|cell| board.fill(cell, 0.92, DEPTH));
    board.fill(36, 0.5, colours::GONE);
    board.fill(47, 0.5, colours::GREEN);
    board.disc(walker, 0.3, colours::RED);
    board.scene.legend = vec![
        (colours::RED, "walker".into()),
        (DEPTH, "cliff".into()),
        (colours::GREEN, "goal".into()),
    ];
    Some(board.scene)
}

pub(crate) fn taxi(view: &View<'_>) -> Option<Scene> {
    let state = field(view, "state")?;
    let (taxi, passenger, destination) = (state / 20, state / 4 % 5, state % 4);
    let mut board = Board::new(5, 5);
    PLACES.iter().for_each(|(cell, colour)| board.fill(*cell, 0.9, *colour));
    // The destination is framed.
    let (place, colour) = PLACES.get(destination as usize)?;
    board.fill(*place, 0.9, colours::INK);
    board.fill(*place, 0.7, *colour);
    for (row, column) in WALLS {
        let (x, top) = (column as f32 + 1.0, (5 - row) as f32);
        board.scene.line(&[(x, top - 1.0), (x, top)], 0.1, colours::INK);
    }
    board.fill(taxi, 0.55, colours::GROUND);
    let waiting = PLACES.get(passenger as usize);
    board.disc(waiting.map_or(taxi, |(cell, _)| *cell), 0.16, colours::BACKGROUND);
    board.scene.legend =
        vec![(colours::GROUND, "taxi".into()), (colours::INK, "frames the destination".into())];
    Some(board.scene)
}

pub(crate) fn catch(view: &View<'_>) -> Option<Scene> {
    let (rows, columns) = (view.key("height")? as i32, view.key("width")? as i32);
    let [row, column, paddle] = ["ball_row", "ball_column", "paddle"].map(|name| field(view, name));
    let mut board = Board::new(rows, columns);
    board.fill((rows - 1) * columns + paddle?, 0.8, colours::BLUE);
    board.disc(row? * columns + column?, 0.3, colours::RED);
    board.scene.legend = vec![(colours::BLUE, "paddle".into()), (colours::RED, "ball".into())];
    Some(board.scene)
}

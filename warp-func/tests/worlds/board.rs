//! Arrays in a state of many numbers: three in a row against chance, stepped replica by replica.

use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, Kernel, Layout, Observation, Result, Space, StepOut,
    TimeLimit,
};

warp_core::config! {
    /// Configuration of [`Board`].
    pub(crate) struct BoardConfig {
        /// What a win is worth.
        pub(crate) prize: f64 = 1.0,
    }
}
warp_core::params! {
    /// What all boards share.
    pub(crate) struct BoardParams {
        /// What a win is worth.
        prize: f32,
    }
}
warp_core::state! {
    /// One board.
    pub(crate) struct BoardState {
        /// 1 where the player is, -1 where the other one is.
        board: [i32; 9],
        /// How often each of both has moved.
        moves: [u32; 2],
        /// What the player has won so far.
        won: [f32; 1],
        /// Games on this board.
        games: i32,
    }
}

const LINES: [usize; 24] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 3, 6, 1, 4, 7, 2, 5, 8, 0, 4, 8, 2, 4, 6];

/// Three games after each other.
#[derive(Debug)]
pub(crate) struct Board {
    params: BoardParams,
}

impl Env for Board {
    const NAME: &'static str = "board";
    type Config = BoardConfig;
    type Params = BoardParams;
    type State = BoardState;

    fn new(config: &BoardConfig) -> Result<Self> {
        Ok(Self { params: BoardParams { prize: config.prize as f32 } })
    }

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![GroupSpec {
                name: "player".into(),
                n_agents: 1,
                observation: Space::unbounded(12),
                action: Space::Discrete { n: 9 },
                mortal: false,
            }],
            time_limit: TimeLimit::UNLIMITED,
            statistics: vec!["won".into()],
            global_observation: None,
        }
    }

    fn params(&self) -> &BoardParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let (file, layout) = ("board.cu", Layout::ThreadPerReplica);
        Some(Kernel { file, text: include_str!("board.cu"), layout })
    }

    fn reset(&self, state: &mut BoardState, draw: &mut Draw) {
        state.board = opened(draw.below(9) as usize);
        state.moves = [0, 1];
        state.won[0] = 0.0;
        state.games = 0;
    }

    fn observe(&self, state: &BoardState, out: &mut Observation<'_>) {
        for cell in 0..9 {
            out.obs[0][cell] = state.board[cell] as f32;
        }
        out.obs[0][9] = state.moves[0] as f32;
        out.obs[0][10] = state.moves[1] as f32;
        out.obs[0][11] = state.won[0];
    }

    fn step(
        &self,
        state: &mut BoardState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        let cell = actions.discrete[0][0] as usize;
        let mut over = false;
        if state.board[cell] == 0 {
            state.board[cell] = 1;
            state.moves[0] += 1;
            over = has_line(&state.board, 1);
            if over {
                out.reward[0][0] = self.params.prize;
            } else if n_free(&state.board) == 0 {
                over = true;
            } else {
                answer(&mut state.board, draw);
                state.moves[1] += 1;
                over = has_line(&state.board, -1) || n_free(&state.board) == 0;
            }
        } else {
            out.reward[0][0] = -0.1 * self.params.prize;
        }
        state.won[0] += out.reward[0][0];
        out.statistics[0] = state.won[0];
        if over {
            state.games += 1;
            state.board = opened(draw.below(9) as usize);
            out.terminated = state.games == 3;
        }
    }
}

/// A board on which the other one has begun.
fn opened(cell: usize) -> [i32; 9] {
    let mut board = [0; 9];
    board[cell] = -1;
    board
}

fn has_line(board: &[i32; 9], who: i32) -> bool {
    let mut found = false;
    for line in 0..8 {
        let mut count = 0;
        for i in 0..3 {
            count += i32::from(board[LINES[3 * line + i]] == who);
        }
        found |= count == 3;
    }
    found
}

fn n_free(board: &[i32]) -> u32 {
    let mut count = 0;
    for cell in 0..board.len() {
        count += u32::from(board[cell] == 0);
    }
    count
}

/// The other one takes a free cell.
fn answer(board: &mut [i32; 9], draw: &mut Draw) {
    let mut left = draw.below(n_free(board));
    for cell in 0..9 {
        if board[cell] == 0 {
            if left == 0 {
                board[cell] = -1;
                return;
            }
            left -= 1;
        }
    }
}

// Made from worlds/board.rs by warp translate; change that file.
// Arrays in a state of many numbers: three in a row against chance, stepped replica by replica.

__device__ static const unsigned int LINES[24] = {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 0u, 3u, 6u,
    1u, 4u, 7u, 2u, 5u, 8u, 0u, 4u, 8u, 2u, 4u, 6u};

// A board on which the other one has begun.
__device__ inline WarpArray<int, 9> opened(unsigned int cell) {
    WarpArray<int, 9> board = {};
    board[cell] = -1;
    return board;
}

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    state.board = opened(warp_draw_below(&draw, 9u));
    state.moves = WarpArray<unsigned int, 2>{0u, 1u};
    state.won[0] = 0.0f;
    state.games = 0;
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
#pragma unroll
    for (unsigned int cell = 0u; cell < 9u; ++cell) {
        out.obs[0][cell] = (float)state.board[cell];
    }
    out.obs[0][9] = (float)state.moves[0];
    out.obs[0][10] = (float)state.moves[1];
    out.obs[0][11] = state.won[0];
}

__device__ inline bool has_line(const WarpArray<int, 9>& board, int who) {
    bool found = false;
#pragma unroll
    for (unsigned int line = 0u; line < 8u; ++line) {
        int count = 0;
#pragma unroll
        for (unsigned int i = 0u; i < 3u; ++i) {
            count += (int)(board[LINES[3u * line + i]] == who);
        }
        found |= count == 3;
    }
    return found;
}

__device__ inline unsigned int n_free(WarpSlice<const int> board) {
    unsigned int count = 0u;
    for (unsigned int cell = 0u; cell < board.len; ++cell) {
        count += (unsigned int)(board[cell] == 0);
    }
    return count;
}

// The other one takes a free cell.
__device__ inline void answer(WarpArray<int, 9>& board, WarpDraw& draw) {
    unsigned int left = warp_draw_below(&draw, n_free(warp_slice(board)));
#pragma unroll
    for (unsigned int cell = 0u; cell < 9u; ++cell) {
        if (board[cell] == 0) {
            if (left == 0u) {
                board[cell] = -1;
                return;
            }
            left -= 1u;
        }
    }
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    unsigned int cell = (unsigned int)actions.discrete[0][0];
    bool over = false;
    if (state.board[cell] == 0) {
        state.board[cell] = 1;
        state.moves[0] += 1u;
        over = has_line(state.board, 1);
        if (over) {
            out.reward[0][0] = env.params.prize;
        } else if (n_free(warp_slice(state.board)) == 0u) {
            over = true;
        } else {
            answer(state.board, draw);
            state.moves[1] += 1u;
            over = has_line(state.board, -1) || n_free(warp_slice(state.board)) == 0u;
        }
    } else {
        out.reward[0][0] = -0.1f * env.params.prize;
    }
    state.won[0] += out.reward[0][0];
    out.statistics[0] = state.won[0];
    if (over) {
        state.games += 1;
        state.board = opened(warp_draw_below(&draw, 9u));
        out.terminated = state.games == 3;
    }
}

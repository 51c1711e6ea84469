// Made from examples/03_your_own_environment.rs by warp translate; change that file.
// An environment of your own, with the whole `warp` command.
// `cargo run --release -p warp-examples --example 03_your_own_environment -- train hike`
// `warp translate` has made its CUDA text from this file, so that it runs on a GPU as well.
// A hiker on a ridge of random length wants to stand on the top when the whistle blows.

__device__ inline void reset(const Env& env, State& state, WarpDraw& draw) {
    state.position = 0;
    state.top = 1 + (int)warp_draw_below(&draw, env.params.ridge);
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    out.obs[0][0] = (float)(state.top - state.position);
}

__device__ inline void step(const Env&, State& s, const Actions& a, WarpDraw&, StepOut& out) {
    s.position += a.discrete[0][0] - 1;
    out.reward[0][0] = s.position == s.top ? 1.0f : 0.0f;
}

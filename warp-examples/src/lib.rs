//! The warp command: train, evaluate, benchmark and replay reinforcement-learning policies

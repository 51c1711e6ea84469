//! The worlds: fast vectorised reinforcement-learning environments for the CPU, single- and multi-agent

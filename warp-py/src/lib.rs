//! The native half of the Python package `warp_rl`.
#![doc = include_str!("../README.md")]

mod binding;

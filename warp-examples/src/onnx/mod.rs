//! A policy as an ONNX file: what it acts by, from raw observations to the likeliest action.
//!
//! `policy` says which nodes a policy is, `graph` puts them together, `proto` has the messages of the format.
//! Normalisation of observations, masks and the bounds of actions are part of the graph, so that whoever runs it
//! needs nothing else.

mod graph;
mod policy;
mod proto;

pub use policy::{Exported, export};

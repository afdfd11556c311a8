//! The engine from outside: what it decides, what it refuses, and what its views show.
#![allow(clippy::unwrap_used, clippy::expect_used)]


mod world;
mod play;
mod properties;

//! The vocabulary and the pure core.
//!
//! A session is its journal. [`Session::decide`](session::Session::decide) says what follows from
//! something that happened, as events; [`Session::apply`](session::Session::apply) folds events into
//! a state; [`Session::outstanding`](session::Session::outstanding) says what the state leaves to be
//! done. There is no clock here, no I/O, no randomness and no tokio.
//!
//! Start with [`session`], then [`transitions`] (what may follow what), [`decide`] and [`command`].

pub mod agent;
pub mod canonical;
pub mod checkpoint;
pub mod command;
pub mod context;
pub mod conversation;
pub mod decide;
pub mod dependencies;
pub mod escape;
pub mod event;
pub mod failure;
pub mod hooks;
pub mod key;
pub mod level;
pub mod limits;
pub mod lines;
pub mod message;
pub mod needs;
pub mod outstanding;
pub mod pending;
mod picture;
pub mod plan;
pub mod pool;
pub mod principal;
pub mod prompt;
pub mod refusal;
pub mod result;
pub mod revise;
pub mod rules;
pub mod session;
pub mod text;
pub mod tokens;
pub mod transitions;

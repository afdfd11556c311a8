//! For tests only: the `cairn` program in a folder of its own, killed and started again.
//!
//! | module | gives |
//! |---|---|
//! | [`site`] | [`Site`]: a folder with files, settings, a store; commands run in it |
//! | [`ledger`] | [`Ledger`]: what a tool with side effects did, written down outside of Cairn |
//! | [`journal`] | [`Journal`]: an exported journal and what must hold of any |
//! | [`collector`] | [`Collector`]: where traces are sent to, and the spans that came |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set up its world is over"
)]

pub mod collector;
pub mod journal;
pub mod ledger;
pub mod site;

pub use collector::{Collector, SpanEvent, TraceSpan};
pub use journal::Journal;
pub use ledger::Ledger;
pub use site::{Output, Site};

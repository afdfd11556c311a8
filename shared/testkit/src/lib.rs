//! For tests only: the `cairn` program in a folder of its own, killed and started again.
//!
//! | module | gives |
//! |---|---|
//! | [`site`] | [`Site`]: a folder with files, settings, a store; commands run in it |
//! | [`ledger`] | [`Ledger`]: what a tool with side effects did, written down outside of Cairn |
//! | [`cluster`] | [`Cluster`]: the five services as five processes |
//! | [`journal`] | [`Journal`]: an exported journal and what must hold of any |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set up its world is over"
)]

pub mod cluster;
pub mod journal;
pub mod ledger;
pub mod site;

pub use cluster::Cluster;
pub use journal::Journal;
pub use ledger::Ledger;
pub use site::{Output, Site};

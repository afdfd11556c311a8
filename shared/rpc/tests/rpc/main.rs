//! Links and servers: everything is alike in one process, over TCP and over a Unix socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests may fail here"
)]

mod demo;
mod stand;

mod calls;
mod connections;
mod ends;
mod identities;
mod pages;
mod pool;
mod standard_services;

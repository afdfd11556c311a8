//! The service over local links, and its store where the conformance suite leaves off.
//!
//! One conformance suite runs on disk, in memory, on Redis, on a cluster of three servers, and
//! over gRPC. With Valkey 8.1 as the `redis-server` on the path, all of it runs on Valkey.
//!
//! The tests of Redis lose replies, make the server forget its scripts, and kill or suspend it. A
//! sentinel or a cluster replaces it. Other tests use other users and TLS.

#![allow(
    clippy::unwrap_used,
    reason = "tests fail by panicking, their helpers included"
)]

mod blobs;
mod conformance;
#[cfg(debug_assertions)]
mod crash;
mod damage;
mod documents;
mod ending;
mod grpc;
mod holding;
#[cfg(unix)]
mod killed;
#[cfg(unix)]
mod lost_log;
mod model;
mod opening;
#[cfg(target_os = "linux")]
mod redis;
mod removal;
mod support;
mod validation;
mod validation_lists;

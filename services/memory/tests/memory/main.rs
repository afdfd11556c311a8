//! The service over local links, and its store where the conformance suite leaves off.

#![allow(
    clippy::unwrap_used,
    reason = "tests fail by panicking, their helpers included"
)]

mod conformance;
#[cfg(debug_assertions)]
mod crash;
mod damage;
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
mod support;
mod validation;
mod validation_lists;

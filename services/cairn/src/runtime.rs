//! The runtime of the process.

use std::io;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Runtime};

/// A runtime with a thread for each core but one: that one is for the store, whose thread writes.
///
/// On two cores this makes a step of a single session a fifth faster than two threads, between
/// which every message would change, and costs 64 sessions nothing.
///
/// # Errors
/// The system's.
pub fn runtime() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, usize::from);
    with_workers(cores.saturating_sub(1).max(1))
}

/// A runtime with so many threads.
///
/// # Errors
/// The system's.
pub fn with_workers(workers: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
}

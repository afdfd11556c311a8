//! Where a store under test comes from.

use std::path::PathBuf;

/// Where the store under test comes from.
pub(super) enum Place {
    Memory,
    Disk(PathBuf),
    Grpc,
    #[cfg(target_os = "linux")]
    Redis(cairn_memory::redis::RedisConfig),
}

//! How far a replica is behind its master.

use super::{RedisServer, ask, wait_until};

/// Waits until the replica of two has all that its master has now.
///
/// # Panics
/// If it gets no further, or is cut off.
pub(super) fn wait_until_in_step(one: &RedisServer, other: &RedisServer) {
    wait_until("what the master has", || {
        let (master, replica) = match one.ask(&["ROLE"]).contains("slave") {
            true => (other, one),
            false => (one, other),
        };
        let master = offset(master, "master_repl_offset:");
        // Read afterwards, so that it may only be too far.
        let replica = offset(replica, "slave_repl_offset:");
        master.is_some() && replica >= master
    });
}

/// Waits until a replica has got everything for the first time.
///
/// # Panics
/// If it does not.
pub(super) fn wait_until_linked(replica: &RedisServer) {
    wait_until("a replica", || {
        replica
            .ask(&["INFO", "replication"])
            .contains("master_link_status:up")
    });
}

/// Waits until a replica has become a master.
///
/// # Panics
/// If it does not.
pub(super) fn wait_until_master(replica: &RedisServer) {
    wait_until("another master", || {
        // A sentinel ends all connections to it when it makes it one.
        ask(replica.port, &["ROLE"]).is_some_and(|role| role.contains("master"))
    });
}

/// How much of the master's writes a server has.
fn offset(server: &RedisServer, name: &str) -> Option<u64> {
    let info = server.ask(&["INFO", "replication"]);
    let offset = info.lines().find_map(|line| line.strip_prefix(name))?;
    offset.trim().parse().ok()
}

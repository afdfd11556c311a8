//! Ports for servers that restart at the same address.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Below the ports that systems give to connections and to listeners that name none. Such a connection
/// would take a server's port while the server is dead.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
/// Processes with neighbouring ids begin to look so many ports apart.
const PORTS_PER_PROCESS: u32 = 64;

/// The locks of the ports that this process has. They end with it.
static LOCKS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port that belongs to this process until it ends: no other process that asks here gets it.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("cairn-ports-{user}"));
    fs::create_dir_all(&folder).expect("a folder for locks");
    let count = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(PORTS_PER_PROCESS);
    let ports = (0..count).map(|number| {
        let place = first.wrapping_add(number) % count;
        PORTS.start + u16::try_from(place).expect("a place among the ports")
    });
    let locked = ports.filter_map(|port| {
        let lock = File::create(folder.join(port.to_string())).expect("a lock");
        lock.try_lock().ok().map(|()| (port, lock))
    });
    let mut free =
        locked.filter(|(port, _)| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    let (port, lock) = free.next().expect("a free port");
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.push(lock);
    port
}

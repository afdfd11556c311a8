//! Ports for servers that have to be told where to listen.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Below those that systems give to connections and to listeners that name none: these would take one
/// before the server has it.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// Those that this process has been given.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that nobody listens at, by chance: another process hardly ever gets the same before it is
/// used, and this one never.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let chance = RandomState::new();
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let count = u64::from(PORTS.end - PORTS.start);
    let mut ports = (0..10_000_u32).map(|number| {
        let place = chance.hash_one(number) % count;
        PORTS.start + u16::try_from(place).unwrap_or_default()
    });
    let is_free = |port: &u16| {
        !given.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
    };
    let port = ports.find(is_free).expect("a free port");
    given.insert(port);
    port
}

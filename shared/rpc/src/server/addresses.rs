//! Connections of each peer address: limited in number.

use super::calls::OpenCalls;
use crate::metrics::{self, counter};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// An event that repeats is logged this often.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The open connections of a listener, by peer address. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    most: usize,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The connections of each address, the oldest first.
    open: HashMap<IpAddr, BTreeMap<u64, Seat>>,
    next: u64,
    refused: Repeated,
    closed: Repeated,
}

/// What is known of a connection.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) calls: OpenCalls,
    /// Ends the connection.
    pub(super) cut: CancellationToken,
}

/// A connection's place among those of its address, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    address: IpAddr,
    number: u64,
    addresses: Addresses,
}

impl Addresses {
    /// At most this many connections for each address.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            shared: Arc::default(),
        }
    }

    /// A place for a connection from this address. If the address has too many, its oldest one without an
    /// admitted call ends. None if there is no such one; the log and a metric say so.
    pub(super) fn admit(&self, address: IpAddr, seat: Seat) -> Option<Place> {
        let address = address.to_canonical();
        let mut shared = self.lock();
        let Shared {
            open,
            next,
            refused,
            closed,
        } = &mut *shared;
        let limit = self.most;
        let seats = open.entry(address).or_default();
        if seats.len() >= limit {
            let mut unauthenticated = seats.iter().filter(|(_, seat)| !seat.calls.is_admitted());
            let Some(oldest) = unauthenticated.next().map(|(number, _)| *number) else {
                counter!(metrics::CONNECTIONS_CLOSED, "why" => "address_limit").increment(1);
                if let Some(refused) = refused.is_logged() {
                    tracing::warn!(
                        peer = %address, limit, refused,
                        "connections refused: the peer's address has too many open"
                    );
                }
                return None;
            };
            if let Some(oldest) = seats.remove(&oldest) {
                oldest.cut.cancel();
            }
            counter!(metrics::CONNECTIONS_CLOSED, "why" => "unauthenticated").increment(1);
            if let Some(closed) = closed.is_logged() {
                tracing::warn!(
                    peer = %address, limit, closed,
                    "connections without an admitted call closed: the peer's address has too many open"
                );
            }
        }
        let number = *next;
        *next += 1;
        seats.insert(number, seat);
        Some(Place {
            address,
            number,
            addresses: self.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut shared = self.addresses.lock();
        if let Some(seats) = shared.open.get_mut(&self.address) {
            // It is gone already if the connection made room for another.
            seats.remove(&self.number);
            if seats.is_empty() {
                shared.open.remove(&self.address);
            }
        }
    }
}

/// Counts an event that may repeat quickly, so that the log has a line now and then.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    logged: Option<Instant>,
    times: u64,
}

impl Repeated {
    /// How often it happened since the last line, if it is time for another.
    pub(super) fn is_logged(&mut self) -> Option<u64> {
        self.times += 1;
        if self
            .logged
            .is_some_and(|logged| logged.elapsed() < LOG_EVERY)
        {
            return None;
        }
        self.logged = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection from this address, with an admitted call or without.
    fn admit(addresses: &Addresses, ip: &str, is_admitted: bool) -> Option<(Place, Seat)> {
        let seat = Seat {
            calls: OpenCalls::new(is_admitted),
            cut: CancellationToken::new(),
        };
        let place = addresses.admit(ip.parse().unwrap(), seat.clone())?;
        Some((place, seat))
    }

    #[tokio::test(start_paused = true)]
    async fn each_address_has_its_own_places() {
        let addresses = Addresses::new(2);
        let first = admit(&addresses, "127.0.0.1", true).unwrap();
        let _second = admit(&addresses, "::ffff:127.0.0.1", true).unwrap();
        assert!(admit(&addresses, "127.0.0.1", true).is_none());
        let other = admit(&addresses, "127.0.0.2", true).unwrap();
        drop(first);
        let _again = admit(&addresses, "127.0.0.1", true).unwrap();
        drop(other);
        assert_eq!(addresses.lock().open.len(), 1, "a closed address is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_unauthenticated_connection_makes_room() {
        let addresses = Addresses::new(3);
        let (_known, known) = admit(&addresses, "127.0.0.1", true).unwrap();
        let (oldest_place, oldest) = admit(&addresses, "127.0.0.1", false).unwrap();
        let (_later, later) = admit(&addresses, "127.0.0.1", false).unwrap();
        let (_new, new) = admit(&addresses, "127.0.0.1", false).unwrap();
        let cut = [&known, &oldest, &later, &new].map(|seat| seat.cut.is_cancelled());
        assert_eq!(cut, [false, true, false, false]);
        // Its end frees no further place.
        drop(oldest_place);
        later.calls.open().admit();
        new.calls.open().admit();
        assert!(admit(&addresses, "127.0.0.1", false).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_has_a_line_a_minute() {
        let mut repeated = Repeated::default();
        assert_eq!(repeated.is_logged(), Some(1));
        assert_eq!(repeated.is_logged(), None);
        assert_eq!(repeated.is_logged(), None);
        tokio::time::advance(LOG_EVERY).await;
        assert_eq!(repeated.is_logged(), Some(3));
    }
}

//! Connections of each peer address: limited in number.

use crate::metrics::{self, counter};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

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
    open: HashMap<IpAddr, usize>,
    refused: Repeated,
}

/// A connection's place among those of its address, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    address: IpAddr,
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

    /// A place for a connection from this address. None if the address has too many; the log and a
    /// metric say so.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut shared = self.lock();
        let open = shared.open.entry(address).or_default();
        if *open >= self.most {
            counter!(metrics::CONNECTIONS_CLOSED, "why" => "address_limit").increment(1);
            if let Some(refused) = shared.refused.is_logged() {
                let limit = self.most;
                tracing::warn!(
                    peer = %address, limit, refused,
                    "connections refused: the peer's address has too many open"
                );
            }
            return None;
        }
        *open += 1;
        Some(Place {
            address,
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
        if let Some(open) = shared.open.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
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

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_address_has_its_own_places() {
        let addresses = Addresses::new(2);
        let first = addresses.admit(ip("127.0.0.1")).unwrap();
        let _second = addresses.admit(ip("::ffff:127.0.0.1")).unwrap();
        assert!(addresses.admit(ip("127.0.0.1")).is_none());
        let other = addresses.admit(ip("127.0.0.2")).unwrap();
        drop(first);
        let _again = addresses.admit(ip("127.0.0.1")).unwrap();
        drop(other);
        assert_eq!(addresses.lock().open.len(), 1, "a closed address is kept");
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

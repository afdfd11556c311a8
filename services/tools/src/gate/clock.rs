//! What is known here of the store's clock.

use async_trait::async_trait;
use cairn_rpc::Monotonic;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

/// How often the time is read without being asked for.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// Longest wait for one reading.
const READ_LIMIT: Duration = Duration::from_secs(2);

/// An error of whatever reads the store's time.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Asks the store for its time.
#[async_trait]
pub trait StoreTime: Send + Sync + 'static {
    /// Milliseconds since 1970, read from the store's clock after this was called: never an
    /// earlier answer.
    ///
    /// # Errors
    /// Any, if the store cannot be asked.
    async fn read(&self) -> Result<u64, BoxError>;
}

/// One answer of the store.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// What the store's clock showed, in milliseconds since 1970.
    stamp: u64,
    /// When it was asked: before the stamp was made, so that the bound is never too low.
    asked: Duration,
}

/// A bound of the store's clock, kept fresh by asking.
pub struct StoreClock {
    source: Arc<dyn StoreTime>,
    monotonic: Arc<dyn Monotonic>,
    reading: Mutex<Option<Reading>>,
    /// Held while the store is asked, so that many calls at once ask only once.
    asking: tokio::sync::Mutex<()>,
}

impl StoreClock {
    /// A clock without a reading yet.
    pub fn new(source: Arc<dyn StoreTime>, monotonic: Arc<dyn Monotonic>) -> Self {
        Self {
            source,
            monotonic,
            reading: Mutex::new(None),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    /// The latest that the store's clock can show now, in milliseconds since 1970; none before the
    /// first reading.
    pub fn latest_now(&self) -> Option<u64> {
        let reading = (*self.lock())?;
        let since = self.monotonic.now().saturating_sub(reading.asked);
        // Rounded up: the bound must not be a part of a millisecond too low.
        let millis = u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Some(reading.stamp.saturating_add(millis))
    }

    /// Asks the store now.
    ///
    /// # Errors
    /// What the store said, or that it said nothing in 2 s. The last reading stays.
    pub async fn refresh(&self) -> Result<(), BoxError> {
        let _asking = self.asking.lock().await;
        self.ask().await
    }

    /// Asks the store, unless the last reading is at most `limit` old.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub async fn refresh_if_older(&self, limit: Duration) -> Result<(), BoxError> {
        if self.is_fresh(limit) {
            return Ok(());
        }
        let _asking = self.asking.lock().await;
        if self.is_fresh(limit) {
            return Ok(());
        }
        self.ask().await
    }

    /// Asks now and then every 5 s, until what is returned is dropped. Needs a tokio runtime.
    pub fn keep_fresh(self: &Arc<Self>) -> Refresher {
        let clock = self.clone();
        let task: JoinHandle<()> = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(REFRESH_EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut failing = false;
            loop {
                ticks.tick().await;
                match clock.refresh().await {
                    Ok(()) => failing = false,
                    // Said once: the gate itself speaks for every call that it refuses.
                    Err(error) if !failing => {
                        tracing::warn!(%error, "the store's time cannot be read");
                        failing = true;
                    }
                    Err(_) => {}
                }
            }
        });
        Refresher(AbortOnDropHandle::new(task))
    }

    async fn ask(&self) -> Result<(), BoxError> {
        let asked = self.monotonic.now();
        let answer = tokio::time::timeout(READ_LIMIT, self.source.read()).await;
        let stamp = answer.map_err(|_| "the store did not answer in time")??;
        *self.lock() = Some(Reading { stamp, asked });
        Ok(())
    }

    fn is_fresh(&self, limit: Duration) -> bool {
        match *self.lock() {
            Some(reading) => self.monotonic.now().saturating_sub(reading.asked) <= limit,
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading>> {
        // A reading is replaced whole, so a poisoned lock still holds a right one.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClock")
            .field("reading", &*self.lock())
            .finish_non_exhaustive()
    }
}

/// Keeps a [`StoreClock`] fresh as long as it lives.
#[derive(Debug)]
pub struct Refresher(#[expect(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

//! A run on its way, as its client knows it.

use super::load::Load;
use super::oracle::{End, Watched};
use super::wanted::{Wanted, plain, wanted};
use cairn_proto::event::settlement::Outcome;
use cairn_rpc::RpcError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Status};

/// A start is asked for so often although it was answered, in every second run: in the others what
/// a store lost of it is not put back unseen.
const REPEATS: usize = 4;

/// A run on its way.
pub(crate) struct Run {
    pub(crate) wanted: Wanted,
    pub(crate) known: Watched,
    pub(crate) has_ended: bool,
    /// How many of the acts that are wanted have been answered.
    pub(crate) acted: usize,
    /// The plan that the client knows to be in force was put there by this event.
    pub(crate) revised: u64,
    /// When something was first asked for, by the request's name.
    pub(crate) asked: BTreeMap<String, i64>,
    /// What is answered to each question; a repeat must say the same.
    pub(crate) answers: BTreeMap<String, Outcome>,
    /// The questions whose answers were taken, or are not wanted any more.
    pub(crate) settled: BTreeSet<String>,
    /// How often the start is asked for.
    pub(crate) repeats: usize,
    meets_older: bool,
    pub(crate) advanced: Instant,
}

/// Why a client turns to another server.
pub(crate) enum Break {
    /// A server that is killed or frozen, or cannot reach the store.
    Usual,
    /// Nothing came for a while.
    Silence,
    /// Somebody has to let the session be worked on again.
    Quarantine,
}

impl Run {
    pub(crate) fn new(load: &Load, driver: usize, number: usize) -> Self {
        let seed = load.seed;
        let name = format!("seed-{seed}-{driver}-{number}");
        let place = seed / 2 + (driver + number) as u64;
        Self {
            wanted: match load.is_plain {
                true => plain(&name, driver + number),
                false => wanted(&name, seed, driver, number),
            },
            known: Watched::new(&name),
            has_ended: false,
            acted: 0,
            revised: 0,
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            settled: BTreeSet::new(),
            repeats: if place.is_multiple_of(2) { REPEATS } else { 1 },
            meets_older: load.meets_older,
            advanced: Instant::now(),
        }
    }

    /// The number of the last event that came.
    pub(crate) fn cursor(&self) -> u64 {
        let seen = self.known.seen.iter();
        seen.map(|(seq, _)| *seq).max().unwrap_or(0)
    }

    /// It has ended as it may.
    pub(crate) fn end(&mut self, how: End) {
        self.has_ended = true;
        self.known.end = how;
    }

    /// It has ended as it never should.
    pub(crate) fn give_up(&mut self, why: &str) {
        self.end(End::Otherwise(why.to_owned()));
    }

    /// What a refusal means. What nobody should ever get is kept, and the client continues as with
    /// any break.
    pub(crate) fn note(&mut self, status: &Status) -> Break {
        let error = RpcError::from_status(status);
        let is_acknowledged = !self.known.starts.is_empty();
        match (status.code(), error.reason_name()) {
            (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled, _) => {}
            (_, "SESSION_QUARANTINED") => return Break::Quarantine,
            (_, "NEWER_VERSION") if self.meets_older => {}
            (Code::NotFound, _) if is_acknowledged => {
                self.give_up(&format!("a start was acknowledged and is lost: {status:?}"));
            }
            _ => self.known.odd.push(format!("{status:?}")),
        }
        Break::Usual
    }
}

/// Milliseconds since 1970 by this machine's clock, which the store's is here.
pub(crate) fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// How long it is until then.
pub(crate) fn until(unix_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(unix_ms - now()).unwrap_or(0))
}

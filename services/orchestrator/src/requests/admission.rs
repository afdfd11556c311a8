//! Whether new work is accepted. A full system refuses it, and continues with what it has.

use super::Requests;
use crate::key::SessionKey;
use crate::sessions::{Bound, Reservation};
use crate::store::{Store, within};
use cairn_proto::memory as pb;
use cairn_rpc::{ErrorKind, RpcError, SingleFlight};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tonic::Request;

/// How old a count of what is queued may become: counting looks into every queue.
const COUNT_AGE: Duration = Duration::from_secs(1);
/// What has not been counted by then is not waited for.
const COUNT_TIME: Duration = Duration::from_secs(1);
/// First moments at which it makes sense to ask again. An owner's place may be free at any time; a
/// long queue does not get shorter so soon.
const OWNER_PAUSE: Duration = Duration::from_secs(1);
const QUEUE_PAUSE: Duration = Duration::from_secs(5);
/// Of the memory that the store's servers may have, new runs leave this part to those that were
/// accepted, in percent: a server that is full takes no transition of anybody.
const KEPT_FREE: u128 = 20;

/// What is asked for a new run.
pub(crate) enum Admission {
    /// It is accepted; a place is kept for its session until it has one, if it needs one here.
    Accepted { reservation: Option<Reservation> },
    /// It is refused with this error. A repeat of what was accepted is answered all the same.
    OnlyRepeats(RpcError),
}

impl Admission {
    /// Of work that needs no place here.
    pub(crate) fn without_reservation() -> Self {
        Self::Accepted { reservation: None }
    }
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// This process owns as many sessions as it may.
    Owner { most: usize },
    /// The sessions that this process owns have as much state as they may.
    State { most: usize },
    /// As many sessions as may wait for an owner.
    Queue { queued: u64, most: u64 },
    /// A server of the store has hardly any memory left.
    Store(Fill),
    /// The store is to keep what it answers, and its servers do not any more.
    NotDurable,
}

/// What a server of the store has in memory, and what it may have there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fill {
    used: u64,
    most: u64,
}

impl Fill {
    fn of(answer: &pb::CountQueuedResponse) -> Option<Self> {
        let (used, most) = (answer.memory_used_bytes, answer.memory_most_bytes);
        (most > 0).then_some(Self { used, most })
    }

    fn is_full(self) -> bool {
        u128::from(self.used) * 100 > u128::from(self.most) * (100 - KEPT_FREE)
    }
}

impl Full {
    /// What a client is told. `roll` is any number: those who are refused together are not to come
    /// back together.
    fn error(self, roll: u64) -> RpcError {
        match self {
            Self::Owner { most } => {
                let message = format!(
                    "this orchestrator is at work on as many sessions as it may be, {most}; nothing \
                     was started"
                );
                RpcError::overloaded(message, spread(OWNER_PAUSE, roll))
                    .meta("limit", "session.max_owned")
                    .meta("allowed", most.to_string())
            }
            Self::State { most } => {
                let message = format!(
                    "the sessions of this orchestrator have as many bytes of state as they may, {most}; \
                     nothing was started"
                );
                RpcError::overloaded(message, spread(OWNER_PAUSE, roll))
                    .meta("limit", "session.state_bytes")
                    .meta("allowed", most.to_string())
            }
            Self::Queue { queued, most } => {
                let message = format!(
                    "{queued} sessions wait to be worked on, and at most {most} may; nothing was \
                     started"
                );
                RpcError::overloaded(message, spread(QUEUE_PAUSE, roll))
                    .meta("limit", "session.max_queued")
                    .meta("allowed", most.to_string())
                    .meta("queued", queued.to_string())
            }
            Self::Store(Fill { used, most }) => {
                let message = format!(
                    "a server of the store has {used} of {most} bytes in its memory (maxmemory), and \
                     the last {KEPT_FREE} % are for runs that were accepted; nothing was started"
                );
                RpcError::overloaded(message, spread(QUEUE_PAUSE, roll))
                    .meta("limit", "maxmemory")
                    .meta("allowed", most.to_string())
                    .meta("used", used.to_string())
            }
            Self::NotDurable => {
                let message = "the store does not keep what it answers, and \
                               store.redis.require_durable asks for that; nothing was started";
                RpcError::overloaded(message, spread(QUEUE_PAUSE, roll))
                    .meta("limit", "store.redis.require_durable")
            }
        }
    }
}

/// A time between a pause and twice as much.
fn spread(pause: Duration, roll: u64) -> Duration {
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    pause + Duration::from_millis(roll % pause_ms.max(1))
}

/// Whether a new run may be started, in the session of that name or in a new one.
pub(crate) async fn admit(requests: &Arc<Requests>, session: Option<&SessionKey>) -> Admission {
    // One that is owned here has its place, and its owner answers at once.
    if session.is_some_and(|key| requests.sessions.has(key)) {
        return Admission::without_reservation();
    }
    let full = match Reservation::new(&requests.sessions) {
        Err(Bound::Sessions) => Full::Owner {
            most: requests.config().max_sessions,
        },
        Err(Bound::StateBytes) => Full::State {
            most: requests.config().state_bytes,
        },
        Ok(reservation) => {
            let count = requests.backlog.count(requests.store()).await;
            match count.and_then(|count| count.full(requests.config().max_queued)) {
                Some(full) => full,
                // A store that cannot count will say itself what it cannot do.
                None => {
                    return Admission::Accepted {
                        reservation: Some(reservation),
                    };
                }
            }
        }
    };
    Admission::OnlyRepeats(full.error(by_chance()))
}

/// Whether a session may be stored that nobody is to work on for now.
pub(crate) async fn admit_idle(requests: &Arc<Requests>) -> Admission {
    let count = requests.backlog.count(requests.store()).await;
    match count.and_then(Count::no_room) {
        Some(full) => Admission::OnlyRepeats(full.error(by_chance())),
        None => Admission::without_reservation(),
    }
}

/// The end of such an id is chance.
fn by_chance() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1
}

/// Whether a session is there, as that of a request which had been accepted.
pub(crate) async fn is_there(requests: &Requests, key: &SessionKey) -> Result<bool, RpcError> {
    // After the last of all events there are none to be read.
    match requests.store().read(key, u64::MAX).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// How many sessions of the store wait for an owner and how full it is, as counted a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    last: Mutex<Option<(Instant, Option<Count>)>>,
    counting: SingleFlight<Option<Count>>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    queued: u64,
    fill: Option<Fill>,
    not_durable: bool,
}

impl Count {
    async fn of(store: &Store) -> Option<Self> {
        let level = store.level;
        let request = within(COUNT_TIME, Request::new(pb::CountQueuedRequest { level }));
        match store.ownership().count_queued(request).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                Some(Self {
                    queued: answer.queued,
                    fill: Fill::of(&answer),
                    not_durable: answer.not_durable,
                })
            }
            Err(status) => {
                let error = RpcError::from_status(&status);
                tracing::debug!(%error, "what is queued cannot be counted");
                None
            }
        }
    }

    fn full(self, most: u64) -> Option<Full> {
        let queued = self.queued;
        match self.no_room() {
            Some(Full::NotDurable) => Some(Full::NotDurable),
            _ if queued >= most => Some(Full::Queue { queued, most }),
            full => full,
        }
    }

    /// Why nothing more is to be stored, whoever works on it.
    fn no_room(self) -> Option<Full> {
        match self.fill.filter(|fill| fill.is_full()) {
            _ if self.not_durable => Some(Full::NotDurable),
            fill => fill.map(Full::Store),
        }
    }
}

impl Backlog {
    /// Counts if the last count is too old; whoever asks meanwhile waits for the same answer.
    /// `None` if that is in vain.
    async fn count(&self, store: &Store) -> Option<Count> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *last();
        if let Some((at, count)) = known
            && at.elapsed() < COUNT_AGE
        {
            return count;
        }
        let store = store.clone();
        let counted = self
            .counting
            .join(|| async move { Count::of(&store).await });
        let count = counted.await.flatten();
        *last() = Some((Instant::now(), count));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Fill, Full, OWNER_PAUSE, QUEUE_PAUSE, spread};
    use cairn_rpc::{ErrorKind, RpcError};
    use std::collections::BTreeSet;

    #[test]
    fn those_who_are_refused_together_come_back_one_after_the_other() {
        for pause in [OWNER_PAUSE, QUEUE_PAUSE] {
            let rolls = [0, 1, 999, 123_456, u64::MAX];
            let delays: BTreeSet<_> = rolls.map(|roll| spread(pause, roll)).into();
            assert!(delays.len() > 3, "{delays:?}");
            assert!(delays.iter().all(|it| (pause..2 * pause).contains(it)));
        }
    }

    fn fill(used: u64) -> Fill {
        Fill { used, most: 1000 }
    }

    #[test]
    fn the_last_fifth_of_the_memory_is_for_what_was_accepted() {
        let full = |queued, used| {
            let fill = Some(fill(used));
            let not_durable = false;
            let count = Count {
                queued,
                fill,
                not_durable,
            };
            count.full(5)
        };
        assert_eq!(full(4, 800), None);
        assert_eq!(full(4, 801), Some(Full::Store(fill(801))));
        let queue = Full::Queue { queued: 5, most: 5 };
        assert_eq!(full(5, 801), Some(queue));
        let unlimited = Count {
            queued: 4,
            fill: None,
            not_durable: false,
        };
        assert_eq!(unlimited.full(5), None);
    }

    #[test]
    fn a_store_that_has_to_keep_all_and_does_not_takes_nothing_new() {
        for (queued, used) in [(0, 0), (9, 999)] {
            let count = Count {
                queued,
                fill: Some(fill(used)),
                not_durable: true,
            };
            assert_eq!(count.full(5), Some(Full::NotDurable));
            assert_eq!(count.no_room(), Some(Full::NotDurable));
        }
        let error = Full::NotDurable.error(7);
        assert_eq!(error.reason_name(), RpcError::OVERLOADED);
        let limit = error.metadata("limit");
        assert_eq!(limit, Some("store.redis.require_durable"));
    }

    #[test]
    fn a_refusal_says_which_limit_and_when_to_come_back() {
        let queue = Full::Queue {
            queued: 12,
            most: 10,
        };
        for (full, limit, allowed) in [
            (Full::Owner { most: 2 }, "session.max_owned", "2"),
            (Full::State { most: 7 }, "session.state_bytes", "7"),
            (queue, "session.max_queued", "10"),
            (Full::Store(fill(900)), "maxmemory", "1000"),
        ] {
            let error = full.error(7);
            assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
            assert_eq!(error.reason_name(), RpcError::OVERLOADED);
            assert_eq!(error.metadata("limit"), Some(limit));
            assert_eq!(error.metadata("allowed"), Some(allowed));
            assert!(error.retry_delay().is_some());
        }
    }
}

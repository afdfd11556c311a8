//! Sessions that wait for what no resource has: which wait longest, and how one is queued.
//!
//! A set of each partition has those whose notes name a need, owned or not, by the time since when they wait. A
//! look takes the first of each set, and asks of each session whether it is parked. Bare commands do both, so no
//! caller waits for a look. What it finds may have changed by then: the script that queues a session checks again.

use super::answer::not_refused;
use super::ask::VERY_LATE;
use super::claim::{scored, threes_of};
use super::failure::{Effect, odd};
use super::inner::{Inner, score};
use super::keys::{self, PARTITIONS};
use super::script::{Odd, Reply};
use crate::port::{SessionKey, StoreResult, WaitingSession, waits_of};
use redis::Value;

/// Sessions that are asked about at once, at most.
const BATCH: usize = 512;

/// The same where few are wanted: some of them may have an owner.
const FEW: usize = 64;

/// A place in the order of all sessions that wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    since: i64,
    member: String,
    partition: u16,
}

/// The first of all sets.
struct Longest {
    /// In their order, without gaps.
    places: Vec<Place>,
    /// The sets have no more.
    is_all: bool,
}

impl Inner {
    /// See [`Store::waiting`](crate::port::Store::waiting).
    pub(super) async fn waiting(&self, max: usize) -> StoreResult<Vec<WaitingSession>> {
        let now = self.now().await?;
        let (mut found, mut last) = (Vec::new(), None::<Place>);
        // Partitions have nearly equal parts.
        let mut most = max / usize::from(PARTITIONS) + 8;
        while found.len() < max {
            let Longest { places, is_all } = self.longest(most).await?;
            let is_ahead = |place: &Place| last.as_ref().is_none_or(|last| place > last);
            let ahead: Vec<_> = places.into_iter().filter(is_ahead).collect();
            let mut rest = &ahead[..];
            while !rest.is_empty() && found.len() < max {
                let wanted = (max - found.len()).clamp(FEW, BATCH);
                let (some, later) = rest.split_at(wanted.min(rest.len()));
                found.extend(self.parked(some, now).await?);
                rest = later;
            }
            if is_all {
                break;
            }
            last = ahead.into_iter().next_back().or(last);
            most = most.saturating_mul(4);
        }
        found.truncate(max);
        Ok(found)
    }

    /// The first places of all partitions, as far as it is certain that none is missing in between.
    async fn longest(&self, most: usize) -> StoreResult<Longest> {
        let questions = (0..PARTITIONS).map(|number| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(self.names.partition(number).waiting())
                .arg(0)
                .arg(most - 1)
                .arg("WITHSCORES");
            (number, cmd)
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let (mut places, mut end) = (Vec::<Place>::new(), None::<Place>);
        for (partition, answer) in (0..PARTITIONS).zip(answers) {
            let members = answer.map_or(Ok(Vec::new()), scored);
            let members = members.map_err(|error| odd(Effect::Reads, error))?;
            let is_full = members.len() == most;
            places.extend(members.into_iter().map(|(member, since)| Place {
                since,
                member,
                partition,
            }));
            // Its set continues behind this place.
            let last = places.last().filter(|_| is_full);
            if last.is_some_and(|last| end.as_ref().is_none_or(|end| last < end)) {
                end = last.cloned();
            }
        }
        if let Some(end) = &end {
            places.retain(|place| place <= end);
        }
        places.sort_unstable();
        Ok(Longest {
            places,
            is_all: end.is_none(),
        })
    }

    /// Those of the sessions that are parked and not due, in their order.
    async fn parked(&self, places: &[Place], now: i64) -> StoreResult<Vec<WaitingSession>> {
        let questions = places.iter().flat_map(|place| {
            let names = self.names.partition(place.partition);
            let mut session = redis::cmd("HMGET");
            session
                .arg(names.hash(&place.member))
                .arg(&["f", "del", "ow", "q", "wf"]);
            let place_in = |queue: String| {
                let mut cmd = redis::cmd("ZSCORE");
                cmd.arg(queue).arg(&place.member);
                cmd
            };
            let questions = [session, place_in(names.due()), place_in(names.newer())];
            questions.map(|cmd| (place.partition, cmd))
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let mut parked = Vec::new();
        for (place, answers) in places.iter().zip(threes_of(answers)) {
            let session = self.parked_session(place, answers, now);
            parked.extend(session.map_err(|error| odd(Effect::Reads, error))?);
        }
        Ok(parked)
    }

    fn parked_session(
        &self,
        place: &Place,
        [session, due, newer]: [Option<Value>; 3],
        now: i64,
    ) -> Result<Option<WaitingSession>, Odd> {
        let (Some(session), Some(due), Some(newer)) = (session, due, newer) else {
            return Ok(None);
        };
        let mut fields = Reply::new(session)?;
        let (format, deleted) = (fields.optional()?, fields.optional()?);
        if not_refused(self.formats, format, deleted).is_err() {
            return Ok(None);
        }
        let (owner, quarantined) = (fields.text()?, fields.int()?);
        let waits_for = fields.optional()?.unwrap_or_default();
        let is_due = newer != Value::Nil || (due != Value::Nil && score(&due)? <= now);
        let key = keys::session_of(&place.member).ok_or(Odd)?;
        let is_parked = owner.is_empty()
            && quarantined == 0
            && !is_due
            && !waits_for.is_empty()
            && self.servers.witness.known_loss(&key).is_none();
        let waits_for = waits_of(std::str::from_utf8(&waits_for).map_err(|_| Odd)?);
        Ok(is_parked.then_some(WaitingSession {
            key,
            since_unix_ms: place.since,
            waits_for,
        }))
    }

    /// See [`Store::wake`](crate::port::Store::wake).
    pub(super) async fn wake(&self, key: &SessionKey) -> StoreResult<bool> {
        let names = self.names.session(key);
        let partition = names.partition.number;
        let keys = [
            names.hash(),
            names.partition.due(),
            names.partition.work(),
            names.partition.newer(),
        ];
        // A session that lost writes counts as quarantined also while its server does not take the mark.
        if self.servers.witness.known_loss(key).is_some() {
            return Ok(false);
        }
        let call = self.scripts.wake.call(&keys);
        let call = call.arg(&names.member).arg(&self.process);
        let woken = self.run(partition, call, Effect::Writes, |_, reply| reply.int());
        let woken = woken.await? == 1;
        if woken {
            self.queue.mark(&self.hub, partition);
        }
        Ok(woken)
    }
}

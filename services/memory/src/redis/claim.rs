//! Claiming sessions: a look at the queues of all partitions, and then a script in each of those
//! that hold what is to be claimed.
//!
//! The first claimer that meets a session above its level moves it to another queue of the partition,
//! `newer`. There it is in front of no session that others can claim, and a claimer of a higher level finds
//! it: the queue goes by levels first. A claim looks at three queues, however many levels there are.

mod candidates;
mod only;
mod take;

pub(super) use take::MAX_CLAIMS;

use super::ask::{LATE, VERY_LATE};
use super::failure::{Effect, odd};
use super::inner::{Inner, score};
use super::keys::PARTITIONS;
use super::queue::LOOK_AGAIN;
use super::script::{Odd, Reply};
use crate::hub::Listener;
use crate::port::{Claim, ClaimRequest, Claims, Level, SessionKey, StoreError, StoreResult};
use futures::future::try_join;
use redis::Value;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// Most partitions whose due sessions are looked at together: in each of them a whole window is.
const AT_ONCE: usize = 16;

/// What a level counts in the scores of `newer`. Below that, a score is the time since when the session can
/// be claimed. Scores are whole up to 2^53: that is enough for the highest level, until the year 2109.
const BAND: i64 = 1 << 42;

/// The scores of `newer` that a claimer of this level can claim are below this.
fn beyond(level: Level) -> i64 {
    (i64::from(level.number()) + 1) * BAND
}

/// Which of a partition's queues, in the order in which they are claimed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Expired = 1,
    /// With those that were left to newer claimers.
    Due = 2,
}

/// A session that could be claimed when its queue was looked at, and its place among others.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    kind: Kind,
    since: i64,
    /// Decides between sessions of equal standing.
    roll: u64,
    partition: u16,
    member: String,
}

/// What a look at the queues found.
struct Found {
    now: i64,
    /// Where leases have run out.
    expired: Vec<u16>,
    /// Where sessions are due.
    due: Vec<u16>,
    /// Nothing else can be claimed before this time, unless something happens.
    next: Option<i64>,
}

/// What a claim has brought so far.
struct Brought {
    claims: Vec<Claim>,
    /// Those that only a newer program can claim.
    strange: HashSet<String>,
    /// One that was met is above the claimer's level: there may be many.
    is_above: bool,
    now: i64,
}

impl Inner {
    /// See [`Store::claim`](crate::port::Store::claim).
    pub(super) async fn claim(&self, request: ClaimRequest) -> StoreResult<Claims> {
        if let Some(key) = &request.only {
            return self.claim_only(&request, key).await;
        }
        let deadline = Instant::now() + request.wait;
        let mut listener = Listener::new(&self.hub, &request.owner);
        self.hints.serves(&request.owner);
        loop {
            let hinted = listener.take();
            let partitions = match request.max_sessions {
                // The news are for those who want something.
                0 => Vec::new(),
                // Who does not wait is not told that nothing is there because nobody has heard of it.
                _ => self.queue.take(request.level, request.wait.is_zero()),
            };
            let look_again = |_: &StoreError| self.queue.look_at(Instant::now());
            let found = self
                .look(&request, partitions)
                .await
                .inspect_err(look_again)?;
            self.queue.look_at(Instant::now() + pause(&found));
            let claimed = self.claim_from(&request, &found).await;
            let (claims, now) = claimed.inspect_err(look_again)?;
            let claims = Claims {
                claims,
                woken: self.woken(&request.owner, hinted).await,
                now_unix_ms: self.servers.time.take(now),
            };
            let nothing = claims.claims.is_empty() && claims.woken.is_empty();
            if !nothing || Instant::now() >= deadline {
                return Ok(claims);
            }
            // Looks again whether something happened or the time has come.
            let until = match request.max_sessions {
                0 => Instant::now() + LOOK_AGAIN,
                _ => self.queue.looks_at(),
            };
            let _ = tokio::time::timeout_at(deadline.min(until), listener.changed()).await;
        }
    }

    /// See [`Store::queued`](crate::port::Store::queued). What a server has that does not answer, or
    /// is late, is left out.
    pub(super) async fn queued(&self, level: Level) -> StoreResult<u64> {
        let now = self.now().await?.to_string();
        let left = format!("({}", beyond(level));
        let count = |partition: u16, queue: String, until: &str| {
            let mut cmd = redis::cmd("ZCOUNT");
            cmd.arg(queue).arg("-inf").arg(until);
            (partition, cmd)
        };
        let counts = (0..PARTITIONS).flat_map(|number| {
            let names = self.names.partition(number);
            [
                count(number, names.leases(), &now),
                count(number, names.due(), &now),
                count(number, names.newer(), &left),
            ]
        });
        let counts = self.servers.ask_some(LATE, counts).await?;
        let counts = counts.iter().flatten().map(score).sum::<Result<i64, _>>();
        let count = counts.map_err(|error| odd(Effect::Reads, error))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Looks at what comes first in each queue of the partitions.
    async fn look(&self, request: &ClaimRequest, partitions: Vec<u16>) -> StoreResult<Found> {
        let ask = |number: u16, queue: String| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(queue).arg(0).arg(0).arg("WITHSCORES");
            (number, cmd)
        };
        let questions = partitions.iter().flat_map(|&number| {
            let names = self.names.partition(number);
            let queues = [names.leases(), names.due(), names.newer()];
            queues.map(|queue| ask(number, queue))
        });
        let firsts = self.servers.ask_some(VERY_LATE, questions);
        let ((now, apart), firsts) = try_join(self.now_there(), firsts).await?;
        // Who wants only news gets them.
        if request.max_sessions > 0 {
            let checked = self.servers.time.check(apart.as_ref(), request.lease_ms);
            checked.inspect_err(|_| self.servers.lookout.call_failed())?;
        }
        let now = self.servers.time.take(now);
        let mut ready = [Vec::new(), Vec::new()];
        let mut next = None;
        for (number, [lease, due, newer]) in partitions.into_iter().zip(threes_of(firsts)) {
            let times = [first_score(lease)?, first_score(due)?];
            for (time, ready) in times.into_iter().zip(&mut ready) {
                match time {
                    Some(time) if time <= now => ready.push(number),
                    Some(time) => next = Some(next.map_or(time, |next: i64| next.min(time))),
                    None => {}
                }
            }
            match first_score(newer)? {
                Some(place) if place >= beyond(request.level) => {
                    let needs = Level::of_stored(place / BAND);
                    self.queue.leave(&self.hub, number, needs);
                }
                Some(_) if ready[1].last() != Some(&number) => ready[1].push(number),
                Some(_) | None => {}
            }
        }
        let [expired, due] = ready;
        Ok(Found {
            now,
            expired,
            due,
            next,
        })
    }

    /// Claims in the order that the port promises, as many as there is room for, and tells when.
    async fn claim_from(
        &self,
        request: &ClaimRequest,
        found: &Found,
    ) -> StoreResult<(Vec<Claim>, i64)> {
        let mut brought = Brought {
            claims: Vec::new(),
            strange: HashSet::new(),
            is_above: false,
            now: found.now,
        };
        let mut due = found.due.clone();
        due.sort_by_cached_key(|_| self.queue.roll());
        let due = due.chunks(AT_ONCE).map(|some| (Kind::Due, some));
        let rounds = std::iter::once((Kind::Expired, &found.expired[..])).chain(due);
        for (kind, partitions) in rounds {
            if !self
                .claim_round(request, kind, partitions, &mut brought)
                .await?
            {
                break;
            }
        }
        if brought.claims.len() == request.max_sessions {
            // There may be more, for others.
            for &partition in found.expired.iter().chain(&found.due) {
                self.queue.mark(&self.hub, partition);
            }
        }
        Ok((brought.claims, brought.now))
    }

    /// Claims from queues of one kind while there is room and something left. Says whether there is
    /// a point in looking elsewhere.
    async fn claim_round(
        &self,
        request: &ClaimRequest,
        kind: Kind,
        partitions: &[u16],
        brought: &mut Brought,
    ) -> StoreResult<bool> {
        while brought.claims.len() < request.max_sessions && !partitions.is_empty() {
            let room = request.max_sessions - brought.claims.len();
            let candidates = self.candidates(request, kind, partitions, room, brought);
            let candidates = match candidates.await {
                Err(_) if !brought.claims.is_empty() => return Ok(false),
                candidates => candidates?,
            };
            let is_all = candidates.len() < room;
            let outcome = self.take(request, candidates).await;
            let makes_room = outcome.quarantine || outcome.is_above || !outcome.strange.is_empty();
            brought.is_above |= outcome.is_above;
            let is_stuck = outcome.claims.is_empty() && !makes_room;
            brought.claims.extend(outcome.claims);
            self.tell_strange(&outcome.strange);
            brought.strange.extend(outcome.strange);
            brought.now = brought.now.max(outcome.now);
            match outcome.error {
                Some(error) if brought.claims.is_empty() => return Err(error),
                Some(_) => return Ok(false),
                None if is_stuck || (is_all && !makes_room) => break,
                None => {}
            }
        }
        Ok(true)
    }

    /// Says once of each session that it waits for a newer version.
    fn tell_strange(&self, members: &[String]) {
        for session in members.iter().filter(|member| self.queue.is_new(member)) {
            tracing::warn!(
                session,
                "a newer version stored the session: it is left to that, and not worked on here"
            );
        }
    }

    /// Those of the hinted sessions that are still the owner's and still have something to do.
    /// What cannot be found out now is told by a renewal.
    async fn woken(&self, owner: &str, hinted: Vec<SessionKey>) -> Vec<SessionKey> {
        if hinted.is_empty() {
            return hinted;
        }
        let questions = hinted.iter().map(|key| {
            let names = self.names.session(key);
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(names.hash()).arg(&["ow", "cmd", "hnd"]);
            (names.partition.number, cmd)
        });
        let Ok(answers) = self.servers.ask_some(VERY_LATE, questions).await else {
            return Vec::new();
        };
        let waits = |answer: Value| {
            let mut fields = Reply::new(answer)?;
            let is_owner = fields.text()? == owner;
            Ok::<_, Odd>(is_owner && fields.int()? > fields.int()?)
        };
        let answers = answers
            .into_iter()
            .map(|answer| answer.is_some_and(|answer| waits(answer) == Ok(true)));
        let pairs = hinted.into_iter().zip(answers);
        pairs
            .filter_map(|(key, waits)| waits.then_some(key))
            .collect()
    }
}

/// How long nothing can become claimable unheard of, as far as one can tell.
fn pause(found: &Found) -> Duration {
    let next = found.next.map_or(i64::MAX, |next| next - found.now);
    Duration::from_millis(u64::try_from(next).unwrap_or(0).max(1)).min(LOOK_AGAIN)
}

/// Answers to three questions each.
pub(super) fn threes_of<T>(answers: Vec<T>) -> impl Iterator<Item = [T; 3]> {
    let mut answers = answers.into_iter();
    std::iter::from_fn(move || Some([answers.next()?, answers.next()?, answers.next()?]))
}

/// The score of the one member that was asked for, if it is there.
fn first_score(answer: Option<Value>) -> StoreResult<Option<i64>> {
    let members = answer.map_or(Ok(Vec::new()), scored);
    let members = members.map_err(|error| odd(Effect::Reads, error))?;
    Ok(members.first().map(|(_, score)| *score))
}

/// Members with their scores, whichever way the server nests them.
pub(super) fn scored(answer: Value) -> Result<Vec<(String, i64)>, Odd> {
    let mut values = Reply::new(answer)?;
    let mut members = Vec::new();
    while values.len() > 0 {
        let mut pair = match values.value()? {
            nested @ Value::Array(_) => Reply::new(nested)?,
            member => Reply::new(Value::Array(vec![member, values.value()?]))?,
        };
        members.push((pair.text()?, pair.int()?));
    }
    Ok(members)
}

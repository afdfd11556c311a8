//! Claiming sessions: a look at the queues of all partitions, and then a script in each of those
//! that hold what is to be claimed.

use super::failure::{Effect, odd};
use super::inner::{Inner, score};
use super::keys::{self, PARTITIONS};
use super::script::{Odd, Reply};
use crate::hub::Listener;
use crate::port::{Claim, ClaimRequest, Claims, Lease, SessionKey, StoreError, StoreResult};
use futures::future::{join_all, try_join};
use redis::Value;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Claims without progress after which a session is set aside.
const MAX_CLAIMS: u32 = 5;

/// Most sessions that one script claims, so that nobody waits for it.
const BATCH: usize = 32;

/// The longest time for which a claimer relies on hints.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Which of a partition's queues, in the order in which they are claimed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Expired = 1,
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
    /// Where something can be claimed.
    ready: Vec<u16>,
    /// Nothing else can be claimed before this time, unless something happens.
    next: Option<i64>,
}

/// What became of candidates.
#[derive(Default)]
struct Outcome {
    claims: Vec<Claim>,
    /// Some were set aside, so that there is room for others.
    set_aside: bool,
    /// Those that only a newer program can claim.
    strange: Vec<String>,
    /// When that was.
    now: i64,
    error: Option<StoreError>,
}

impl Inner {
    /// See [`Store::claim`](crate::port::Store::claim).
    pub(super) async fn claim(&self, request: ClaimRequest) -> StoreResult<Claims> {
        let deadline = Instant::now() + request.wait;
        let mut listener = Listener::new(&self.hub, &request.owner);
        self.hints.serves(&request.owner);
        let mut look_at_all = Instant::now();
        loop {
            let hinted = listener.take();
            let is_full = Instant::now() >= look_at_all;
            let partitions = match is_full {
                true => self.queue.take_all(),
                false => self.queue.take(),
            };
            let found = self.look(partitions).await?;
            let next = Instant::now() + pause(&found);
            look_at_all = if is_full { next } else { next.min(look_at_all) };
            let (claims, now) = self.claim_from(&request, &found).await?;
            let claims = Claims {
                claims,
                woken: self.woken(&request.owner, hinted).await,
                now_unix_ms: self.servers.time.tell(now),
            };
            let nothing = claims.claims.is_empty() && claims.woken.is_empty();
            if !nothing || Instant::now() >= deadline {
                return Ok(claims);
            }
            // Looks again whether something happened or the time has come.
            let _ = tokio::time::timeout_at(deadline.min(look_at_all), listener.changed()).await;
        }
    }

    /// See [`Store::queued`](crate::port::Store::queued).
    pub(super) async fn queued(&self) -> StoreResult<u64> {
        let now = self.now().await?;
        let count = |partition: u16, queue: String| {
            let mut cmd = redis::cmd("ZCOUNT");
            cmd.arg(queue).arg("-inf").arg(now);
            (partition, cmd)
        };
        let counts = (0..PARTITIONS).flat_map(|number| {
            let names = self.names.partition(number);
            [count(number, names.leases()), count(number, names.due())]
        });
        let counts = self.servers.ask_all(counts).await?;
        let counts = counts.iter().map(score).sum::<Result<i64, _>>();
        let count = counts.map_err(|error| odd(Effect::Reads, error))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Looks at what comes first in each queue of the partitions.
    async fn look(&self, partitions: Vec<u16>) -> StoreResult<Found> {
        let first = |number: u16, queue: String| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(queue).arg(0).arg(0).arg("WITHSCORES");
            (number, cmd)
        };
        let questions = partitions.iter().flat_map(|&number| {
            let names = self.names.partition(number);
            [first(number, names.leases()), first(number, names.due())]
        });
        let firsts = self.servers.ask_some(questions);
        let (now, firsts) = try_join(self.now(), firsts).await?;
        let mut ready = Vec::new();
        let mut next = None;
        for (number, firsts) in partitions.into_iter().zip(pairs_of(firsts)) {
            let firsts = firsts.into_iter().flatten().map(scored);
            let firsts: Result<Vec<_>, _> = firsts.collect();
            let firsts = firsts.map_err(|error| odd(Effect::Reads, error))?;
            let times = firsts.iter().flatten().map(|(_, score)| *score);
            match times.min() {
                Some(time) if time <= now => ready.push(number),
                Some(time) => next = Some(next.map_or(time, |next: i64| next.min(time))),
                None => {}
            }
        }
        Ok(Found { now, ready, next })
    }

    /// Claims in the order that the port promises, as many as there is room for, and tells when.
    async fn claim_from(
        &self,
        request: &ClaimRequest,
        found: &Found,
    ) -> StoreResult<(Vec<Claim>, i64)> {
        let (mut claims, mut now) = (Vec::new(), found.now);
        let mut strange = HashSet::new();
        while claims.len() < request.max_sessions && !found.ready.is_empty() {
            let room = request.max_sessions - claims.len();
            let candidates = match self.candidates(found, room, &strange).await {
                Err(_) if !claims.is_empty() => break,
                candidates => candidates?,
            };
            let is_all = candidates.len() < room;
            let outcome = self.take(request, candidates).await;
            let makes_room = outcome.set_aside || !outcome.strange.is_empty();
            let is_stuck = outcome.claims.is_empty() && !makes_room;
            claims.extend(outcome.claims);
            self.tell_strange(&outcome.strange);
            strange.extend(outcome.strange);
            now = now.max(outcome.now);
            match outcome.error {
                Some(error) if claims.is_empty() => return Err(error),
                Some(_) => break,
                None if is_stuck || (is_all && !makes_room) => break,
                None => {}
            }
        }
        if claims.len() == request.max_sessions {
            // There may be more, for others.
            for &partition in &found.ready {
                self.queue.mark(&self.hub, partition);
            }
        }
        Ok((claims, now))
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

    /// What can be claimed in the partitions, in order, but for those that only others can claim.
    async fn candidates(
        &self,
        found: &Found,
        room: usize,
        strange: &HashSet<String>,
    ) -> StoreResult<Vec<Candidate>> {
        let until_now = |number: u16, queue: String| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(queue).arg("-inf").arg(found.now).arg("BYSCORE");
            cmd.arg("LIMIT").arg(0).arg(room + strange.len());
            cmd.arg("WITHSCORES");
            (number, cmd)
        };
        let questions = found.ready.iter().flat_map(|&number| {
            let names = self.names.partition(number);
            [
                until_now(number, names.leases()),
                until_now(number, names.due()),
            ]
        });
        let answers = self.servers.ask_some(questions).await?;
        let mut candidates = Vec::new();
        for (&partition, answers) in found.ready.iter().zip(pairs_of(answers)) {
            for (kind, answer) in [Kind::Expired, Kind::Due].into_iter().zip(answers) {
                let members = answer.map_or(Ok(Vec::new()), scored);
                let members = members.map_err(|error| odd(Effect::Reads, error))?;
                let known = members.into_iter().filter(|(m, _)| !strange.contains(m));
                candidates.extend(known.map(|(member, since)| Candidate {
                    kind,
                    since,
                    roll: self.queue.roll(),
                    partition,
                    member,
                }));
            }
        }
        candidates.sort_unstable();
        candidates.truncate(room);
        Ok(candidates)
    }

    /// Claims those of the candidates that can still be claimed.
    async fn take(&self, request: &ClaimRequest, candidates: Vec<Candidate>) -> Outcome {
        let mut partitions: BTreeMap<u16, Vec<(usize, Candidate)>> = BTreeMap::new();
        for (place, candidate) in candidates.into_iter().enumerate() {
            let partition = partitions.entry(candidate.partition);
            partition.or_default().push((place, candidate));
        }
        let batches = partitions.iter().flat_map(|(&partition, candidates)| {
            let batches = candidates.chunks(BATCH);
            batches.map(move |batch| self.take_batch(request, partition, batch))
        });
        let mut outcome = Outcome::default();
        let mut claims = Vec::new();
        for batch in join_all(batches).await {
            match batch {
                Ok((claimed, batch)) => {
                    claims.extend(claimed);
                    outcome.set_aside |= batch.set_aside;
                    outcome.strange.extend(batch.strange);
                    outcome.now = outcome.now.max(batch.now);
                }
                Err(error) => outcome.error = Some(error),
            }
        }
        claims.sort_unstable_by_key(|(place, _)| *place);
        outcome.claims = claims.into_iter().map(|(_, claim)| claim).collect();
        outcome
    }

    async fn take_batch(
        &self,
        request: &ClaimRequest,
        partition: u16,
        candidates: &[(usize, Candidate)],
    ) -> StoreResult<(Vec<(usize, Claim)>, Outcome)> {
        let names = self.names.partition(partition);
        let hashes = candidates.iter().map(|(_, c)| names.hash(&c.member));
        let queues = [names.leases(), names.due(), names.aside()];
        let keys: Vec<_> = queues.into_iter().chain(hashes).collect();
        let call = self.scripts.claim.call(&keys);
        let call = call
            .arg(&request.owner)
            .arg(request.lease_ms)
            .arg(MAX_CLAIMS)
            .arg(candidates.len());
        let call = candidates.iter().fold(call, |call, (_, candidate)| {
            call.arg(&candidate.member).arg(candidate.kind as u8)
        });
        self.run(partition, call, Effect::Writes, |_, reply| {
            let (now, until_unix_ms) = (reply.int()?, reply.int()?);
            let mut claims = Vec::with_capacity(candidates.len());
            let mut outcome = Outcome {
                now,
                ..Outcome::default()
            };
            for (place, candidate) in candidates {
                let epoch = reply.int()?;
                outcome.set_aside |= epoch == SET_ASIDE;
                if epoch == UNKNOWN_FORMAT {
                    outcome.strange.push(candidate.member.clone());
                }
                let (Ok(epoch), Some(key)) =
                    (u64::try_from(epoch), keys::session_of(&candidate.member))
                else {
                    continue;
                };
                if epoch > 0 {
                    let lease = Lease {
                        epoch,
                        until_unix_ms,
                    };
                    let claim = Claim {
                        key,
                        lease,
                        previous_holder_dead: false,
                    };
                    claims.push((*place, claim));
                }
            }
            Ok((claims, outcome))
        })
        .await
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
        let Ok(answers) = self.servers.ask_some(questions).await else {
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

/// What the script answers in the place of an epoch.
const SET_ASIDE: i64 = -1;
const UNKNOWN_FORMAT: i64 = -2;

/// How long nothing can become claimable unheard of, as far as one can tell.
fn pause(found: &Found) -> Duration {
    let next = found.next.map_or(i64::MAX, |next| next - found.now);
    Duration::from_millis(u64::try_from(next).unwrap_or(0).max(1)).min(LOOK_AGAIN)
}

/// The answers about leases and what is due, by partition.
fn pairs_of<T>(answers: Vec<T>) -> impl Iterator<Item = [T; 2]> {
    let mut answers = answers.into_iter();
    std::iter::from_fn(move || Some([answers.next()?, answers.next()?]))
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

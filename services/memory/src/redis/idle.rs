//! Sessions that may go, found without looking at all of them.
//!
//! Each living session is in one of two sets of its partition, with the time from which on it is
//! worth looking at: never later than when it may go. Steps, commands and changes of session memory
//! do not touch them. A look moves a session on to what its hash says by then, and behind those
//! that were not named yet.

use super::ask::VERY_LATE;
use super::claim::scored;
use super::failure::{Effect, odd};
use super::inner::Inner;
use super::keys::{self, PARTITIONS};
use super::script::Odd;
use crate::port::{IdleSession, StoreResult};
use futures::future::join_all;
use redis::Value;

/// Sessions of one partition that one look goes through at most, of each kind.
const MOST: usize = 32;

/// Which of a partition's sets, by its place among the keys of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    /// Sessions without a time to live of their own.
    Resting = 2,
    /// Those with one.
    Ending = 3,
}

impl Inner {
    /// See [`Store::idle`](crate::port::Store::idle).
    pub(super) async fn idle(
        &self,
        after_ms: Option<u64>,
        max: usize,
    ) -> StoreResult<Vec<IdleSession>> {
        let now = self.now().await?;
        let after_ms = after_ms.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
        let before = after_ms.map(|after| now.saturating_sub(after));
        let first = |number: u16, set: String, until: String| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(set).arg("-inf").arg(until).arg("BYSCORE");
            cmd.arg("LIMIT").arg(0).arg(MOST).arg("WITHSCORES");
            (number, cmd)
        };
        let questions = (0..PARTITIONS).flat_map(|number| {
            let names = self.names.partition(number);
            let resting = before.map(|before| first(number, names.resting(), format!("({before}")));
            let ending = first(number, names.ending(), now.to_string());
            [Some(ending), resting].into_iter().flatten()
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let sets = 1 + usize::from(before.is_some());
        let mut candidates = Vec::new();
        for (answers, partition) in answers.chunks(sets).zip(0..PARTITIONS) {
            let found = members(answers).map_err(|error| odd(Effect::Reads, error))?;
            if !found.is_empty() {
                candidates.push((partition, found));
            }
        }
        self.those_idle(candidates, before.unwrap_or(i64::MIN), max)
            .await
    }

    /// Those of the candidates that may go; no more are looked at than are wanted.
    async fn those_idle(
        &self,
        mut candidates: Vec<(u16, Vec<(String, Set)>)>,
        before: i64,
        max: usize,
    ) -> StoreResult<Vec<IdleSession>> {
        // Sessions that nobody takes away must not keep those of later partitions.
        let places = candidates.len().max(1);
        let first = usize::try_from(self.queue.roll() % 256).unwrap_or(0) % places;
        candidates.rotate_left(first);
        let mut room = max;
        for (_, members) in &mut candidates {
            members.truncate(room);
            room -= members.len();
        }
        let looks = candidates.iter().filter(|(_, members)| !members.is_empty());
        let looks = looks.map(|(partition, members)| self.verified(*partition, members, before));
        let (mut found, mut lost) = (Vec::new(), None);
        for look in join_all(looks).await {
            match look {
                Ok(sessions) => found.extend(sessions),
                Err(error) => lost = Some(error),
            }
        }
        // What one server does not answer keeps nothing of the others.
        match lost {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    async fn verified(
        &self,
        partition: u16,
        members: &[(String, Set)],
        before: i64,
    ) -> StoreResult<Vec<IdleSession>> {
        let names = self.names.partition(partition);
        let hashes = members.iter().map(|(member, _)| names.hash(member));
        let sets = [names.due(), names.resting(), names.ending(), names.newer()];
        let keys: Vec<_> = sets.into_iter().chain(hashes).collect();
        let call = self.scripts.idle.call(&keys).arg(before).arg(members.len());
        let call = members
            .iter()
            .fold(call, |call, (member, set)| call.arg(member).arg(*set as u8));
        self.run(partition, call, Effect::Writes, |_, reply| {
            let mut found = Vec::new();
            for (member, _) in members {
                let (last_seq, updated_unix_ms) = (reply.int()?, reply.int()?);
                let key = keys::session_of(member).ok_or(Odd)?;
                found.extend(u64::try_from(last_seq).ok().map(|last_seq| IdleSession {
                    key,
                    last_seq,
                    updated_unix_ms,
                }));
            }
            Ok(found)
        })
        .await
    }
}

/// What the sets of a partition answered: first the sessions with a time to live.
fn members(answers: &[Option<Value>]) -> Result<Vec<(String, Set)>, Odd> {
    let mut members = Vec::new();
    for (answer, set) in answers.iter().zip([Set::Ending, Set::Resting]) {
        let found = answer.clone().map_or(Ok(Vec::new()), scored)?;
        members.extend(found.into_iter().map(|(member, _)| (member, set)));
    }
    Ok(members)
}

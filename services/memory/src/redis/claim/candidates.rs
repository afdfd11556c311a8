//! Choosing what a claim tries to take.

use super::{BAND, Brought, Candidate, Kind, beyond, scored};
use crate::port::{ClaimRequest, Level, StoreResult};
use crate::redis::ask::VERY_LATE;
use crate::redis::failure::{Effect, odd};
use crate::redis::inner::Inner;
use crate::redis::keys;
use crate::redis::script::int;
use crate::turns::WINDOW;

impl Inner {
    /// What can be claimed in the partitions, in order, but for those that only others can claim. Behind
    /// them those that are to be left to claimers of a higher level.
    pub(super) async fn candidates(
        &self,
        request: &ClaimRequest,
        kind: Kind,
        partitions: &[u16],
        room: usize,
        brought: &Brought,
    ) -> StoreResult<Vec<Candidate>> {
        let looked_at = match kind {
            Kind::Expired if !brought.is_above => room,
            Kind::Expired | Kind::Due => room.max(WINDOW),
        };
        let mut found = self
            .found(request.level, kind, partitions, looked_at, brought)
            .await?;
        found.sort_unstable();
        let mut above = Vec::new();
        if brought.is_above {
            (found, above) = self.split(request.level, found).await?;
        }
        let mut chosen = match kind {
            Kind::Due => {
                let turns = &self.queue.turns;
                turns.take(found, room, |it| keys::namespace_of(&it.member))
            }
            Kind::Expired => {
                found.truncate(room);
                found
            }
        };
        chosen.extend(above);
        Ok(chosen)
    }

    /// The first in the queues of the partitions.
    async fn found(
        &self,
        level: Level,
        kind: Kind,
        partitions: &[u16],
        looked_at: usize,
        brought: &Brought,
    ) -> StoreResult<Vec<Candidate>> {
        let strange = &brought.strange;
        let most = looked_at + strange.len();
        let queues = partitions.iter().flat_map(|&number| {
            let names = self.names.partition(number);
            let now = brought.now.to_string();
            let queues = match kind {
                Kind::Expired => vec![(names.leases(), now)],
                Kind::Due => {
                    let left = format!("({}", beyond(level));
                    vec![(names.due(), now), (names.newer(), left)]
                }
            };
            queues.into_iter().map(move |queue| (number, queue))
        });
        let queues: Vec<_> = queues.collect();
        let questions = queues.iter().map(|(number, (queue, until))| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(queue).arg("-inf").arg(until).arg("BYSCORE");
            cmd.arg("LIMIT").arg(0).arg(most).arg("WITHSCORES");
            (*number, cmd)
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let mut candidates = Vec::new();
        for (&(partition, _), answer) in queues.iter().zip(answers) {
            let members = answer.map_or(Ok(Vec::new()), scored);
            let members = members.map_err(|error| odd(Effect::Reads, error))?;
            let known = members.into_iter().filter(|(m, _)| !strange.contains(m));
            candidates.extend(known.map(|(member, since)| Candidate {
                kind,
                since: since % BAND,
                roll: self.queue.roll(),
                partition,
                member,
            }));
        }
        Ok(candidates)
    }

    /// Those that need no more than this level, and the others. Only a claim that has met one of these
    /// asks: one session after the other would take long where many of them are first.
    async fn split(
        &self,
        level: Level,
        candidates: Vec<Candidate>,
    ) -> StoreResult<(Vec<Candidate>, Vec<Candidate>)> {
        let questions = candidates.iter().map(|candidate| {
            let names = self.names.partition(candidate.partition);
            let mut cmd = redis::cmd("HGET");
            cmd.arg(names.hash(&candidate.member)).arg("nd");
            (candidate.partition, cmd)
        });
        let answers = self.servers.ask_some(VERY_LATE, questions).await?;
        let (mut readable, mut above) = (Vec::new(), Vec::new());
        for (candidate, answer) in candidates.into_iter().zip(answers) {
            let needs = answer.as_ref().and_then(int).unwrap_or_default();
            match needs > i64::from(level.number()) {
                true => above.push(candidate),
                false => readable.push(candidate),
            }
        }
        Ok((readable, above))
    }
}

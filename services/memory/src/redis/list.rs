//! Listing the sessions of a namespace: each partition has a part of the order.

use super::claim::scored;
use super::failure::{Effect, odd};
use super::inner::Inner;
use super::keys::{self, PARTITIONS};
use super::script::{Odd, Reply};
use crate::port::{
    PageToken, Quarantine, SessionEntry, SessionKey, SessionPage, SessionStatus, StoreResult,
};
use redis::Value;

/// A place in the order of all sessions: when the session was made, in microseconds, and its
/// partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: u64,
    partition: u16,
}

impl Place {
    /// 2^56 microseconds are two thousand years.
    fn token(self) -> PageToken {
        PageToken(self.rank << 8 | u64::from(self.partition))
    }

    fn of(token: PageToken) -> Self {
        Self {
            rank: token.0 >> 8,
            partition: u16::from(token.0.to_le_bytes()[0]),
        }
    }

    /// The highest rank, as a bound of a range, that a partition has beyond this place.
    fn bound(place: Option<Self>, partition: u16) -> String {
        match place {
            None => "+inf".to_owned(),
            Some(place) if partition < place.partition => place.rank.to_string(),
            Some(place) => format!("({}", place.rank),
        }
    }
}

impl Inner {
    /// See [`Store::list`](crate::port::Store::list).
    pub(super) async fn list(
        &self,
        namespace: &str,
        from: Option<PageToken>,
        max: usize,
    ) -> StoreResult<SessionPage> {
        let from = from.map(Place::of);
        let most = max.saturating_add(1);
        // Partitions have nearly equal parts: a few of each are nearly always enough.
        let few = most.min(max / 64 + 8);
        let mut parts = self.parts(namespace, from, few).await?;
        let mut sessions = merged(&parts, most);
        let cut = sessions.get(max).map(|(place, _)| *place);
        let hides = |part: &Vec<(Place, String)>| {
            let last = part.last().filter(|_| part.len() == few);
            last.is_some_and(|(last, _)| cut.is_none_or(|cut| *last > cut))
        };
        if few < most && parts.iter().any(hides) {
            parts = self.parts(namespace, from, most).await?;
            sessions = merged(&parts, most);
        }
        let is_last = sessions.len() <= max;
        sessions.truncate(max);
        let next = sessions.last().filter(|_| !is_last);
        let next = next.map(|(place, _)| place.token());
        let sessions = self.entries(sessions).await?.into_iter();
        let sessions = sessions.map(|entry| self.known_aside(namespace, entry));
        let sessions = sessions.collect();
        Ok(SessionPage { sessions, next })
    }

    /// The first sessions of each partition, from a place on.
    async fn parts(
        &self,
        namespace: &str,
        from: Option<Place>,
        most: usize,
    ) -> StoreResult<Vec<Vec<(Place, String)>>> {
        let questions = (0..PARTITIONS).map(|number| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(self.names.partition(number).living(namespace))
                .arg(Place::bound(from, number))
                .arg("-inf")
                .arg(&["BYSCORE", "REV", "LIMIT", "0"])
                .arg(most)
                .arg("WITHSCORES");
            (number, cmd)
        });
        let answers = self.servers.ask_all(questions).await?;
        let parts = (0..PARTITIONS).zip(answers).map(|(partition, answer)| {
            let members = scored(answer)?.into_iter().map(|(member, rank)| {
                let rank = u64::try_from(rank).map_err(|_| Odd)?;
                Ok((Place { rank, partition }, member))
            });
            members.collect()
        });
        let parts: Result<_, Odd> = parts.collect();
        parts.map_err(|error| odd(Effect::Reads, error))
    }

    /// What the listing tells of sessions; those that were deleted meanwhile are left out.
    async fn entries(&self, sessions: Vec<(Place, String)>) -> StoreResult<Vec<SessionEntry>> {
        let questions = sessions.iter().map(|(place, member)| {
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(self.names.partition(place.partition).hash(member))
                .arg(&["cr", "st", "up", "seq", "q", "ti", "qw"]);
            (place.partition, cmd)
        });
        let answers = self.servers.ask_all(questions).await?;
        let members = sessions.iter().map(|(_, member)| member.as_str());
        let entries = members
            .zip(answers)
            .filter_map(|(m, answer)| entry(m, answer).transpose());
        let entries: Result<_, Odd> = entries.collect();
        entries.map_err(|error| odd(Effect::Reads, error))
    }

    /// As far as that could not be written yet.
    fn known_aside(&self, namespace: &str, entry: SessionEntry) -> SessionEntry {
        let key = SessionKey::new(namespace, entry.session.as_str());
        let quarantined = self.servers.witness.known_loss(&key).or(entry.quarantined);
        SessionEntry {
            quarantined,
            ..entry
        }
    }
}

/// The first of all partitions, in the order of all.
fn merged(parts: &[Vec<(Place, String)>], most: usize) -> Vec<(Place, String)> {
    let mut all: Vec<_> = parts.iter().flatten().cloned().collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(most);
    all
}

fn entry(member: &str, answer: Value) -> Result<Option<SessionEntry>, Odd> {
    let mut fields = Reply::new(answer)?;
    let Some(created) = fields.optional()? else {
        return Ok(None);
    };
    let created = std::str::from_utf8(&created).ok();
    let key = keys::session_of(member).ok_or(Odd)?;
    let mut entry = SessionEntry {
        session: key.session().to_owned(),
        created_unix_ms: created.and_then(|text| text.parse().ok()).ok_or(Odd)?,
        status: SessionStatus::of_number(fields.int()?),
        updated_unix_ms: fields.int()?,
        last_seq: fields.number()?,
        quarantined: Quarantine::of_number(fields.int()?),
        title: fields.text()?,
    };
    if entry.quarantined.is_some() && fields.optional()?.as_deref() == Some(b"lost") {
        entry.quarantined = Some(Quarantine::WritesLost);
    }
    Ok(Some(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_place_in_the_order_of_all_partitions() {
        let place = Place {
            rank: 1_800_000_000_000_000,
            partition: 7,
        };
        assert_eq!(Place::of(place.token()), place);
        let bound = |partition| Place::bound(Some(place), partition);
        assert_eq!(bound(6), "1800000000000000");
        assert_eq!(bound(7), "(1800000000000000");
        assert_eq!(bound(8), "(1800000000000000");
    }
}

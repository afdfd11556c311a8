//! Listing the sessions of a namespace: each partition has a part of every order.
//!
//! An order is a sorted set of each partition: by creation, by last change, and by creation of those that
//! have an open question. A page is made of batches: places from the sets, and then the headers of the
//! sessions there, by bare commands. No command takes long, so other callers are served in between.

use super::claim::scored;
use super::failure::{Effect, odd};
use super::inner::Inner;
use super::keys::{self, PARTITIONS, Partition};
use super::notes::noted;
use super::script::{Odd, Reply};
use crate::port::{
    Header, Level, ListOrder, ListQuery, MOST_LOOKED_AT, PageToken, Quarantine, SessionEntry,
    SessionKey, SessionPage, SessionStatus, StoreResult,
};
use redis::Value;

/// Sessions whose headers are read at once.
const BATCH: usize = 512;

/// A place in the order of all sessions. Sessions of one score are ordered by their ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    score: u64,
    member: String,
    partition: u16,
}

/// A listing on its way: which sets it reads, and how far it has come.
struct Walk<'q> {
    query: &'q ListQuery,
    namespace: &'q str,
    /// The bounds of the scores.
    first: u64,
    last: u64,
    /// The end of what was looked at.
    from: Option<(u64, String)>,
}

impl<'q> Walk<'q> {
    fn new(namespace: &'q str, query: &'q ListQuery) -> Self {
        let (first, last) = match query.order {
            ListOrder::Created => (0, 1 << 53),
            ListOrder::Changed => query.filter.tenths(),
        };
        let member = |id: &str| keys::member(&SessionKey::new(namespace, id));
        let from = query.from.as_ref();
        Self {
            query,
            namespace,
            first,
            last,
            from: from.map(|PageToken { number, session }| (*number, member(session))),
        }
    }

    fn set(&self, partition: &Partition) -> String {
        match self.query.order {
            ListOrder::Changed => partition.changed(self.namespace),
            ListOrder::Created if self.query.filter.asks_pending() => {
                partition.asking(self.namespace)
            }
            ListOrder::Created => partition.living(self.namespace),
        }
    }

    /// Asks for the first places of a partition.
    fn question(&self, partition: &Partition, most: usize) -> redis::Cmd {
        let from = self.from.as_ref().map(|(score, _)| *score);
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(self.set(partition));
        match self.query.is_ascending {
            true => cmd.arg(from.unwrap_or(self.first)).arg(self.last),
            false => cmd.arg(from.unwrap_or(self.last)).arg(self.first),
        };
        cmd.arg("BYSCORE");
        if !self.query.is_ascending {
            cmd.arg("REV");
        }
        cmd.arg(&["LIMIT", "0"]).arg(most).arg("WITHSCORES");
        cmd
    }

    fn is_before(&self, a: &Place, b: &Place) -> bool {
        match self.query.is_ascending {
            true => a < b,
            false => a > b,
        }
    }

    /// What shares its score with the end of what was looked at may have been looked at, too.
    fn is_ahead(&self, place: &Place) -> bool {
        let here = (place.score, &place.member);
        self.from.as_ref().is_none_or(|(score, member)| {
            let from = (*score, member);
            match self.query.is_ascending {
                true => here > from,
                false => here < from,
            }
        })
    }

    /// The first of all partitions, in the order of all.
    fn merged(&self, parts: Vec<Vec<Place>>, most: usize) -> Vec<Place> {
        let places = parts.into_iter().flatten();
        let mut all: Vec<_> = places.filter(|place| self.is_ahead(place)).collect();
        all.sort_unstable();
        if !self.query.is_ascending {
            all.reverse();
        }
        all.truncate(most);
        all
    }
}

impl Inner {
    /// See [`Store::list`](crate::port::Store::list).
    pub(super) async fn list(
        &self,
        namespace: &str,
        query: &ListQuery,
    ) -> StoreResult<SessionPage> {
        let mut walk = Walk::new(namespace, query);
        let passes = query.filter.test();
        let (mut sessions, mut looked_at) = (Vec::new(), 0);
        let is_filtered = query.filter != Default::default();
        loop {
            let wanted = query.max - sessions.len();
            let room = MOST_LOOKED_AT - looked_at;
            // What passes is most often found soon; if not, the rest of the page is looked at in one go.
            let batch = match (is_filtered, looked_at) {
                (true, 0) => BATCH.min(room),
                (true, _) => room,
                (false, _) => wanted.min(room),
            };
            let mut places = self.places(&walk, batch + 1).await?;
            let is_last = places.len() <= batch;
            places.truncate(batch);
            looked_at += places.len();
            let mut left = places.len();
            for some in places.chunks(BATCH) {
                let entries = self.entries(some).await?;
                for (place, entry) in some.iter().zip(entries) {
                    left -= 1;
                    walk.from = Some((place.score, place.member.clone()));
                    let entry = entry.map(|entry| self.known_aside(namespace, entry));
                    sessions.extend(entry.filter(|entry| passes(entry)));
                    let is_rest = !is_last || left > 0;
                    if sessions.len() == query.max && is_rest {
                        return Ok(page(sessions, walk.from));
                    }
                }
            }
            if is_last {
                return Ok(page(sessions, None));
            }
            if looked_at >= MOST_LOOKED_AT {
                return Ok(page(sessions, walk.from));
            }
        }
    }

    /// The next places of a walk.
    async fn places(&self, walk: &Walk<'_>, most: usize) -> StoreResult<Vec<Place>> {
        // Partitions have nearly equal parts: a few of each are nearly always enough.
        let mean = most / usize::from(PARTITIONS);
        let mut few = most.min(mean + 4 * mean.isqrt() + 6);
        loop {
            let parts = self.parts(walk, few).await?;
            let full = parts.iter().filter(|part| part.len() == few);
            let lasts: Vec<Place> = full.filter_map(|part| part.last().cloned()).collect();
            let merged = walk.merged(parts, most);
            let cut = merged.last().filter(|_| merged.len() == most);
            let hides = |last: &Place| cut.is_none_or(|cut| walk.is_before(last, cut));
            if !lasts.iter().any(hides) {
                return Ok(merged);
            }
            few = few.saturating_mul(4);
        }
    }

    /// The first places of each partition.
    async fn parts(&self, walk: &Walk<'_>, most: usize) -> StoreResult<Vec<Vec<Place>>> {
        let questions = (0..PARTITIONS).map(|number| {
            let partition = self.names.partition(number);
            (number, walk.question(&partition, most))
        });
        let answers = self.servers.ask_all(questions).await?;
        let parts = (0..PARTITIONS).zip(answers).map(|(partition, answer)| {
            let places = scored(answer)?.into_iter().map(|(member, score)| {
                let score = u64::try_from(score).map_err(|_| Odd)?;
                Ok(Place {
                    score,
                    member,
                    partition,
                })
            });
            places.collect()
        });
        let parts: Result<_, Odd> = parts.collect();
        parts.map_err(|error| odd(Effect::Reads, error))
    }

    /// What the listing tells of sessions; `None` for one that was deleted meanwhile.
    async fn entries(&self, places: &[Place]) -> StoreResult<Vec<Option<SessionEntry>>> {
        let questions = places.iter().map(|place| {
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(self.names.partition(place.partition).hash(&place.member))
                .arg(&["cr", "st", "up", "seq", "q", "ti", "qw", "no", "nd"]);
            (place.partition, cmd)
        });
        let answers = self.servers.ask_all(questions).await?;
        let entries = places.iter().zip(answers);
        let entries = entries.map(|(place, answer)| entry(&place.member, answer));
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

fn page(sessions: Vec<SessionEntry>, end: Option<(u64, String)>) -> SessionPage {
    let next = end.and_then(|(number, member)| {
        let session = keys::session_of(&member)?.session().to_owned();
        Some(PageToken { number, session })
    });
    SessionPage { sessions, next }
}

fn entry(member: &str, answer: Value) -> Result<Option<SessionEntry>, Odd> {
    let mut fields = Reply::new(answer)?;
    let Some(created) = fields.optional()? else {
        return Ok(None);
    };
    let created = std::str::from_utf8(&created).ok();
    let key = keys::session_of(member).ok_or(Odd)?;
    let status = SessionStatus::of_number(fields.int()?);
    let (updated_unix_ms, last_seq) = (fields.int()?, fields.number()?);
    let mut quarantined = Quarantine::of_number(fields.int()?);
    let title = fields.text()?;
    let why = fields.optional()?;
    if quarantined.is_some() && why.as_deref() == Some(b"lost") {
        quarantined = Some(Quarantine::WritesLost);
    }
    let notes = fields.optional()?.unwrap_or_default();
    let notes = std::str::from_utf8(&notes).map_err(|_| Odd)?;
    let noted = noted(Header::default(), notes);
    let needs = Level::of_stored(fields.int()?);
    Ok(Some(SessionEntry {
        session: key.session().to_owned(),
        status,
        title,
        agent: noted.agent,
        tokens: noted.tokens,
        cost_nano_usd: noted.cost_nano_usd,
        pending: noted.pending,
        needs,
        created_unix_ms: created.and_then(|text| text.parse().ok()).ok_or(Odd)?,
        updated_unix_ms,
        last_seq,
        quarantined,
    }))
}

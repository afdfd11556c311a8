//! The store's rules once more, as plainly as possible: one thread, no disk, no limits.

mod claims;
mod copies;
pub(crate) mod documents;
mod idle;
mod memory;
mod taking;
mod waiting;

use bytes::Bytes;
use cairn_memory::port::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a store should hold.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) now: i64,
    pub(crate) sessions: BTreeMap<String, Session>,
    /// Sessions that owners have to be told of.
    wakes: HashMap<String, BTreeSet<String>>,
    created: u64,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Session {
    pub(crate) events: Vec<Bytes>,
    /// Which of the events are the last of their transition.
    ends: Vec<bool>,
    pub(crate) blobs: BTreeMap<String, Bytes>,
    pub(crate) version: u64,
    pub(crate) header: Header,
    pub(crate) memory: BTreeMap<String, MemoryEntry>,
    pub(crate) quarantined: bool,
    /// How it ended, if it is no more.
    pub(crate) end: Option<End>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) rank: u64,
    last_command: u64,
    /// What an owner must have seen.
    floor: u64,
    operation: (String, u64),
    epoch: u64,
    owner: Option<(String, i64)>,
    due: Option<i64>,
    /// Since when it waits for what its header names.
    waiting_since: i64,
    claims: claims::Claims,
    holder_dead: bool,
    requests: HashMap<String, (Bytes, u64)>,
    time_to_live: Option<i64>,
    /// Operation, epoch, version and answer of the last command that took the lease.
    taking: Option<(String, u64, u64, bool)>,
}

impl Session {
    fn last(&self) -> u64 {
        self.events.len() as u64
    }

    /// How full the journal is, by the default limits.
    pub(crate) fn journal_permille(&self) -> u32 {
        let bytes: usize = self.events.iter().map(Bytes::len).sum();
        Limits::default().journal_permille(self.last(), bytes as u64)
    }

    fn is_owned_by(&self, owner: &str, epoch: u64) -> bool {
        self.epoch == epoch && self.owner.as_ref().is_some_and(|(name, _)| name == owner)
    }

    fn made(header: &Header, now: i64) -> Self {
        Self {
            header: header.clone(),
            created_at: now,
            updated_at: now,
            waiting_since: now,
            ..Self::default()
        }
    }

    fn note(&mut self, header: &Header, now: i64) {
        if self.header.waits_for != header.waits_for {
            self.waiting_since = now;
        }
        let needs = self.header.needs.max(header.needs);
        self.header = header.clone();
        self.header.needs = needs;
    }

    fn unhandled(&self) -> bool {
        self.last_command > self.header.handled_through
    }

    fn between(&self, after: u64, through: u64) -> Vec<StoredEvent> {
        let numbered = (1..).zip(&self.events);
        numbered
            .filter(|(seq, _)| (after + 1..=through).contains(seq))
            .map(|(seq, event)| StoredEvent {
                seq,
                event: event.clone(),
            })
            .collect()
    }
}

impl Reference {
    pub(crate) fn at(now: i64) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    fn living(&mut self, key: &SessionKey) -> StoreResult<&mut Session> {
        match self.sessions.get_mut(key.session()) {
            None => Err(StoreError::NotFound),
            Some(session) => match session.end {
                Some(end) => Err(StoreError::Terminal(end)),
                None => Ok(session),
            },
        }
    }

    pub(crate) fn create(&mut self, create: &Create) -> StoreResult<Created> {
        let now = self.now;
        let answer = |duplicate, lease| {
            Ok(Created {
                duplicate,
                lease,
                now_unix_ms: now,
            })
        };
        let asked = create.lease.as_ref();
        match self.living(&create.key) {
            Err(StoreError::NotFound) => {}
            Err(error) => return Err(error),
            Ok(session) => {
                let known = session.requests.get(&create.request.id);
                if known.is_none_or(|(digest, _)| *digest != create.request.digest) {
                    return Err(StoreError::RequestMismatch);
                }
                let same = session.version == 0 && session.operation.0 == create.operation_id;
                let owner = session
                    .owner
                    .clone()
                    .filter(|(name, _)| same && asked.is_some_and(|asked| asked.owner == *name));
                let epoch = session.epoch;
                return answer(
                    true,
                    owner.map(|(_, until_unix_ms)| Lease {
                        epoch,
                        until_unix_ms,
                    }),
                );
            }
        }
        self.created += 1;
        let lease = asked.map(|asked| Lease {
            epoch: 1,
            until_unix_ms: now + i64::from(asked.lease_ms),
        });
        let mut session = Session {
            events: create.events.clone(),
            ends: vec![true; create.events.len()],
            last_command: create.last_command_seq,
            floor: create.events.len() as u64,
            operation: (create.operation_id.clone(), 1),
            epoch: u64::from(lease.is_some()),
            owner: asked
                .zip(lease)
                .map(|(a, lease)| (a.owner.clone(), lease.until_unix_ms)),
            rank: self.created,
            time_to_live: create.time_to_live_ms.map(|ttl| ttl as i64),
            ..Session::made(&create.header, now)
        };
        session.due = (lease.is_none() && session.unhandled()).then_some(now);
        let request = (create.request.digest.clone(), create.last_command_seq);
        session.requests.insert(create.request.id.clone(), request);
        self.sessions
            .insert(create.key.session().to_owned(), session);
        answer(false, lease)
    }

    pub(crate) fn commit(&mut self, commit: &Commit) -> StoreResult<Committed> {
        let now = self.now;
        let session = self.living(&commit.key)?;
        let mut committed = Committed {
            duplicate: true,
            first_seq: session.operation.1,
            others: session.between(commit.seen_seq, session.operation.1.saturating_sub(1)),
            lease_until_unix_ms: None,
            now_unix_ms: now,
            journal_permille: session.journal_permille(),
        };
        let mine = session.is_owned_by(&commit.owner, commit.epoch);
        if session.version == commit.version + 1 && session.operation.0 == commit.operation_id {
            let until = session.owner.as_ref().map(|(_, until)| *until);
            committed.lease_until_unix_ms = until.filter(|_| mine);
            return Ok(committed);
        }
        if session.version < commit.version {
            return Err(StoreError::WentBack {
                known: commit.version,
                stored: session.version,
            });
        }
        if !mine {
            return Err(StoreError::Fenced);
        }
        let plausible = (session.floor..=session.last()).contains(&commit.seen_seq)
            && commit.header.handled_through <= commit.seen_seq;
        if session.version != commit.version || !plausible {
            return Err(StoreError::Conflict);
        }
        committed.duplicate = false;
        committed.first_seq = session.last() + 1;
        committed.others = session.between(commit.seen_seq, session.last());
        session.extend(&commit.events);
        for change in &commit.memory_writes {
            session.change(change, now);
        }
        committed.journal_permille = session.journal_permille();
        session.version += 1;
        session.note(&commit.header, now);
        session.floor = session.last();
        session.operation = (commit.operation_id.clone(), committed.first_seq);
        session.updated_at = now;
        if !commit.events.is_empty() && !commit.no_progress {
            session.claims = claims::Claims::default();
        }
        match commit.lease {
            LeaseChange::Park { due_unix_ms } if !session.unhandled() => {
                session.owner = None;
                session.due = due_unix_ms;
                session.claims.release();
            }
            _ => {
                session.claims.confirm();
                let until = now + i64::from(commit.lease_ms);
                session.owner = Some((commit.owner.clone(), until));
                committed.lease_until_unix_ms = Some(until);
            }
        }
        Ok(committed)
    }

    pub(crate) fn append(&mut self, command: &AppendCommand) -> StoreResult<Appended> {
        let (now, request) = (self.now, &command.request);
        let session = self.living(&command.key)?;
        let answer = |duplicate, seq, quarantined, taken| Appended {
            duplicate,
            seq,
            quarantined,
            taken,
            now_unix_ms: now,
        };
        if let Some((digest, seq)) = session.requests.get(&request.id) {
            return match *digest == request.digest {
                true => {
                    let taken = session.taken_before(command);
                    Ok(answer(true, *seq, session.quarantined, taken))
                }
                false => Err(StoreError::RequestMismatch),
            };
        }
        session.events.push(command.event.clone());
        session.ends.push(true);
        session.updated_at = now;
        session.header.needs = session.header.needs.max(command.needs);
        let (seq, quarantined) = (session.last(), session.quarantined);
        session.last_command = seq;
        session
            .requests
            .insert(request.id.clone(), (request.digest.clone(), seq));
        if let Some(taken) = session.take(command, now) {
            return Ok(answer(false, seq, quarantined, Some(taken)));
        }
        let mut wake = None;
        match &session.owner {
            _ if session.quarantined => {}
            Some((owner, until)) if *until > now => wake = Some(owner.clone()),
            Some(_) => {}
            None => session.due = Some(session.due.map_or(now, |due| due.min(now))),
        }
        if let Some(owner) = wake {
            let id = command.key.session().to_owned();
            self.wakes.entry(owner).or_default().insert(id);
        }
        Ok(answer(false, seq, quarantined, None))
    }

    /// Claims all that there is for a level; sorted by id.
    pub(crate) fn claim(&mut self, owner: &str, lease_ms: u32, level: Level) -> Claims {
        let until_unix_ms = self.now + i64::from(lease_ms);
        let mut claims = Claims {
            now_unix_ms: self.now,
            ..Claims::default()
        };
        for (id, session) in &mut self.sessions {
            let expired = session
                .owner
                .as_ref()
                .is_some_and(|(_, until)| *until <= self.now);
            let due = session.due.is_some_and(|due| due <= self.now);
            if (!expired && !due) || session.header.needs > level {
                continue;
            }
            session.due = None;
            if session.claims.is_full() {
                session.quarantined = true;
                session.owner = None;
                continue;
            }
            session.claims.claim();
            session.epoch += 1;
            session.owner = Some((owner.to_owned(), until_unix_ms));
            session.floor = session.last();
            claims.claims.push(Claim {
                key: SessionKey::new("space", id.as_str()),
                lease: Lease {
                    epoch: session.epoch,
                    until_unix_ms,
                },
                previous_holder_dead: std::mem::take(&mut session.holder_dead),
            });
        }
        for id in self.wakes.remove(owner).unwrap_or_default() {
            let session = &self.sessions[&id];
            let mine = session
                .owner
                .as_ref()
                .is_some_and(|(name, _)| name == owner);
            if mine && session.unhandled() && session.end.is_none() {
                claims.woken.push(SessionKey::new("space", id));
            }
        }
        claims
    }

    pub(crate) fn renew(&mut self, request: &RenewRequest) -> Renewed {
        let until = self.now + i64::from(request.lease_ms);
        let mut renewed = Renewed {
            lease_until_unix_ms: until,
            now_unix_ms: self.now,
            ..Renewed::default()
        };
        for OwnedSession { key, epoch } in &request.sessions {
            let session = self.living(key).ok();
            match session.filter(|session| session.is_owned_by(&request.owner, *epoch)) {
                None => renewed.lost.push(key.clone()),
                Some(session) => {
                    session.owner = Some((request.owner.clone(), until));
                    session.claims.confirm();
                    renewed
                        .woken
                        .extend(session.unhandled().then(|| key.clone()));
                }
            }
        }
        renewed
    }

    pub(crate) fn release(&mut self, request: &ReleaseRequest) -> StoreResult<()> {
        let now = self.now;
        let session = self.living(&request.key)?;
        if session.epoch == request.epoch && session.owner.is_none() {
            return Ok(());
        }
        if !session.is_owned_by(&request.owner, request.epoch) {
            return Err(StoreError::Fenced);
        }
        session.owner = None;
        session.due = Some(now);
        session.claims.release();
        Ok(())
    }

    pub(crate) fn release_quarantine(&mut self, key: &SessionKey) -> StoreResult<()> {
        let now = self.now;
        let session = self.living(key)?;
        if std::mem::take(&mut session.quarantined) {
            session.claims = claims::Claims::default();
            session.due = Some(now);
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, key: &SessionKey) -> StoreResult<bool> {
        self.end(key, End::Deleted)
    }

    /// The process dies and the store is opened anew; of the owners only `local` died with it.
    pub(crate) fn reopen(&mut self, local: &str) {
        self.wakes.clear();
        for session in self.sessions.values_mut() {
            if session
                .owner
                .as_ref()
                .is_some_and(|(owner, _)| owner == local)
            {
                session.owner = None;
                session.due = Some(self.now);
                session.holder_dead = true;
            }
        }
    }
}

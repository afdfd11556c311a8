//! Reading journals, blobs and session memory.

use super::answer::not_refused;
use super::entry::{entries, entry, rest_field, text};
use super::failure::{Effect, odd};
use super::format::Formats;
use super::inner::Inner;
use super::journal;
use super::keys::Session;
use super::notes::noted;
use super::script::{Odd, Reply, int};
use super::unchanged::Moment;
use crate::apart::digest_of;
use crate::checksum::check_blob;
use crate::port::{
    BlobUse, EventPage, Header, Level, MemoryEntry, MemoryList, Quarantine, SessionKey,
    SessionStatus, StoreError, StoreResult, StoredEvent, waits_of,
};
use bytes::Bytes;

/// About where a page of events stops.
const PAGE_BYTES: usize = 1 << 20;

impl Inner {
    /// See [`Store::read`](crate::port::Store::read).
    pub(super) async fn read(
        &self,
        key: &SessionKey,
        after_seq: u64,
        max: usize,
    ) -> StoreResult<EventPage> {
        let names = self.names.session(key);
        let keys = [names.hash(), names.journal()];
        let call = self.scripts.read.call(&keys);
        let call = call.arg(after_seq).arg(max).arg(PAGE_BYTES);
        let read = self.run(names.partition.number, call, Effect::Reads, |_, reply| {
            let (last_seq, version) = (reply.number()?, reply.number()?);
            let header = Header {
                status: SessionStatus::of_number(reply.int()?),
                handled_through: reply.number()?,
                title: reply.text()?,
                ..Header::default()
            };
            let stored = Quarantine::of_number(reply.int()?);
            let quarantined = self.servers.witness.known_loss(key).or(stored);
            let accepted_losses = reply.number()?;
            let mut header = noted(header, &reply.text()?);
            header.needs = Level::of_stored(reply.int()?);
            let journal_bytes = reply.number()?;
            header.waits_for = waits_of(&reply.text()?);
            let fields = reply.bytes()?;
            let mut events = Vec::with_capacity(reply.len());
            for place in 0..reply.len() {
                let seq = after_seq + 1 + u64::try_from(place).map_err(|_| Odd)?;
                let event = reply.bytes()?;
                events.push(StoredEvent { seq, event });
            }
            let page = EventPage {
                events,
                last_seq,
                version,
                header,
                quarantined,
                accepted_losses,
                journal_permille: self.limits.journal_permille(last_seq, journal_bytes),
            };
            Ok((fields, page))
        });
        let (fields, page) = read.await?;
        let events = page.events.iter().map(|stored| &stored.event);
        journal::check(after_seq, &fields, events)?;
        Ok(page)
    }

    /// See [`Store::put_blob`](crate::port::Store::put_blob).
    pub(super) async fn put_blob(
        &self,
        key: &SessionKey,
        data: Bytes,
        what: BlobUse,
    ) -> StoreResult<String> {
        self.limits.check_blob(&data)?;
        let content = data.clone();
        let digest = tokio::task::spawn_blocking(move || digest_of(&content));
        let digest = digest.await.map_err(StoreError::unavailable)?;
        let names = self.names.session(key);
        let size = data.len() as u64;
        match self.blob_bytes_without(&names, &digest).await? {
            None => return Ok(digest),
            Some(bytes) => self.limits.check_session_blobs(bytes + size, what)?,
        }
        let mut set = redis::cmd("HSET");
        set.arg(names.blobs()).arg(&digest).arg(&data[..]);
        let partition = names.partition.number;
        let added = (self.servers)
            .send_value(partition, set, data.len(), Effect::Writes)
            .await?;
        let keys = [names.hash(), names.blobs()];
        // Of several that store it at the same time, the first counts it.
        let counted = if int(&added) == Some(0) { 0 } else { size };
        let call = self.scripts.put_blob.call(&keys).arg(counted);
        self.run(names.partition.number, call, Effect::Writes, |_, _| Ok(()))
            .await?;
        Ok(digest)
    }

    /// The bytes of all blobs of a session that does not have this one; `None` if it does.
    async fn blob_bytes_without(&self, names: &Session, digest: &str) -> StoreResult<Option<u64>> {
        let mut has = redis::cmd("HEXISTS");
        has.arg(names.blobs()).arg(digest);
        let mut session = redis::cmd("HMGET");
        session.arg(names.hash()).arg(&["f", "del", "bb"]);
        let questions = [has, session].map(|cmd| (names.partition.number, cmd));
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let mut all = || {
            let has = answers.int()? == 1;
            let mut session = answers.array()?;
            Ok((has, session.optional()?, session.optional()?, session))
        };
        let lost = |error| odd(Effect::Reads, error);
        let (has, format, deleted, mut rest) = all().map_err(lost)?;
        not_refused(self.formats, format, deleted)?;
        let bytes = rest.number().map_err(lost)?;
        Ok((!has).then_some(bytes))
    }

    /// See [`Store::get_blob`](crate::port::Store::get_blob).
    pub(super) async fn get_blob(&self, key: &SessionKey, digest: &str) -> StoreResult<Bytes> {
        let blob = self.blob(key, digest).await?;
        blob.ok_or(StoreError::NotFound)
    }

    /// A blob that is what was written, if the session has one of that digest.
    pub(super) async fn blob(&self, key: &SessionKey, digest: &str) -> StoreResult<Option<Bytes>> {
        let names = self.names.session(key);
        let Some((data, _)) = self.get(key, names.blobs(), &[digest]).await? else {
            return Ok(None);
        };
        let digest = digest.to_owned();
        let checked = tokio::task::spawn_blocking(move || check_blob(&digest, data));
        checked.await.map_err(StoreError::unavailable)?.map(Some)
    }

    /// See [`Store::get_memory`](crate::port::Store::get_memory).
    pub(super) async fn get_memory(
        &self,
        key: &SessionKey,
        name: &str,
    ) -> StoreResult<Option<MemoryEntry>> {
        let names = self.names.session(key);
        let rest = rest_field(name);
        let found = self.get(key, names.memory(), &[name, &rest]).await?;
        let Some((value, mut others)) = found else {
            return Ok(None);
        };
        let read = || {
            let rest = others.optional()?.map(text).transpose()?;
            entry(name.to_owned(), text(value)?, rest.as_deref())
        };
        let read = read().map_err(|_: Odd| {
            let reason = format!("the key {name:?} of session memory is not as it is written");
            StoreError::unavailable(reason)
        });
        read.map(Some)
    }

    /// See [`Store::list_memory`](crate::port::Store::list_memory).
    pub(super) async fn list_memory(&self, key: &SessionKey) -> StoreResult<MemoryList> {
        if let Some((moment, list)) = self.unchanged.get(key)
            && self.moment(key).await? == moment
        {
            return Ok(list.as_ref().clone());
        }
        let (moment, mut list) = match self.list_between(key).await? {
            Some((moment, list)) => (Some(moment), list),
            None => (None, self.list_at_once(key).await?),
        };
        list.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if let Some(moment) = moment {
            self.unchanged.was_read(key, moment, &list);
        }
        Ok(list)
    }

    /// How far a session is now.
    async fn moment(&self, key: &SessionKey) -> StoreResult<Moment> {
        let names = self.names.session(key);
        let question = (names.partition.number, standing(&names));
        let mut answers = Reply::of(self.servers.ask_all([question]).await?);
        // Whichever server answered was vouched for before it did.
        moment(self.formats, &mut answers, self.servers.vouched_times())
    }

    /// All of session memory by bare commands, which take half as long as a script that hands
    /// everything through; `None` if the session changed meanwhile.
    async fn list_between(&self, key: &SessionKey) -> StoreResult<Option<(Moment, MemoryList)>> {
        let names = self.names.session(key);
        let mut all = redis::cmd("HGETALL");
        all.arg(names.memory());
        let mut after = redis::cmd("HGET");
        after.arg(names.hash()).arg("seq");
        let questions = [standing(&names), all, after];
        let questions = questions.map(|cmd| (names.partition.number, cmd));
        // Whichever server answers may have been vouched for after this, but not before.
        let vouched = self.servers.vouched_times();
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let moment = moment(self.formats, &mut answers, vouched)?;
        let list = || {
            let entries = entries(answers.array()?)?;
            let after = answers.optional()?;
            let is_same = after.is_some_and(|after| after == moment.seq.to_string());
            let last_seq = moment.seq;
            Ok(is_same.then_some((moment, MemoryList { entries, last_seq })))
        };
        list().map_err(|error| odd(Effect::Reads, error))
    }

    /// The same at one moment.
    async fn list_at_once(&self, key: &SessionKey) -> StoreResult<MemoryList> {
        let names = self.names.session(key);
        let keys = [names.hash(), names.memory()];
        let call = self.scripts.list_memory.call(&keys);
        self.run(names.partition.number, call, Effect::Reads, |_, reply| {
            let last_seq = reply.number()?;
            let entries = entries(reply.array()?)?;
            Ok(MemoryList { entries, last_seq })
        })
        .await
    }

    /// Fields of a hash that belongs to the session, by bare commands, if it has the first of them: this one
    /// and the others.
    async fn get(
        &self,
        key: &SessionKey,
        hash: String,
        fields: &[&str],
    ) -> StoreResult<Option<(Bytes, Reply)>> {
        match self.get_before(key, &hash, fields).await? {
            Some(values) => Ok(Some(values)),
            // The session may have come with the field since that was looked at. It was there before
            // the field is looked at once more.
            None => self.get_before(key, &hash, fields).await,
        }
    }

    /// The fields are looked at before the session is: that still stood when the fields were as they
    /// are told.
    async fn get_before(
        &self,
        key: &SessionKey,
        hash: &str,
        fields: &[&str],
    ) -> StoreResult<Option<(Bytes, Reply)>> {
        let names = self.names.session(key);
        let mut value = redis::cmd("HMGET");
        value.arg(hash).arg(fields);
        let mut session = redis::cmd("HMGET");
        session.arg(names.hash()).arg(&["f", "del"]);
        let questions = [value, session].map(|cmd| (names.partition.number, cmd));
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let mut all = || {
            let mut values = answers.array()?;
            let first = values.optional()?;
            let mut session = answers.array()?;
            Ok((first, values, session.optional()?, session.optional()?))
        };
        let (first, others, format, deleted) = all().map_err(|error| odd(Effect::Reads, error))?;
        not_refused(self.formats, format, deleted)?;
        Ok(first.map(|first| (first, others)))
    }
}

/// Asks for what [`moment`] takes.
fn standing(names: &Session) -> redis::Cmd {
    let mut cmd = redis::cmd("HMGET");
    cmd.arg(names.hash()).arg(&["f", "del", "cr", "ver", "seq"]);
    cmd
}

/// How far a session was, if it is one that can be read.
fn moment(formats: Formats, answers: &mut Reply, vouched: u64) -> StoreResult<Moment> {
    let lost = |error| odd(Effect::Reads, error);
    let mut fields = answers.array().map_err(lost)?;
    let mut standing = || Ok((fields.optional()?, fields.optional()?));
    let (format, deleted) = standing().map_err(lost)?;
    not_refused(formats, format, deleted)?;
    let mut numbers = || {
        Ok(Moment {
            vouched,
            created: fields.number()?,
            version: fields.number()?,
            seq: fields.number()?,
        })
    };
    numbers().map_err(lost)
}

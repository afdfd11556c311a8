//! Journals that leave for an archive or come from one.

use super::super::journal;
use super::super::operation::Stop;
use super::super::pack::Packed;
use super::super::row::Session;
use super::super::{blob, idle};
use super::Staged;
use crate::apart::{blob_of, digest_of, lacks_blob, listed};
use crate::port::{
    BlobUse, COPY_BYTES, Limits, Room, SessionKey, StoreError, StoredEvent, Transcript,
    TranscriptEvent, TranscriptPage,
};
use bytes::Bytes;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// See [`Store::transcript`](crate::port::Store::transcript).
pub(in super::super) fn read(
    conn: &Connection,
    key: &SessionKey,
    after_seq: u64,
) -> Result<Transcript, Stop> {
    let session = Session::living(conn, key)?;
    let (sid, from) = (session.sid, after_seq.saturating_add(1));
    let mut transcript = Transcript {
        last_seq: session.last_seq,
        time_to_live_ms: idle::time_to_live(conn, sid)?,
        events: Vec::new(),
    };
    if from > session.last_seq {
        return Ok(transcript);
    }
    let (events, mut bytes) = (&mut transcript.events, 0);
    journal::each_row(conn, sid, (from, session.last_seq), |row| {
        let starts = Packed::starts(&row.row);
        for stored in row.events {
            if stored.seq < from {
                continue;
            }
            if let Some(before) = events.last_mut()
                && stored.seq == row.first_seq
            {
                before.ends |= starts;
            }
            if bytes >= COPY_BYTES {
                return Ok(false);
            }
            let event = TranscriptEvent {
                blob: blob_apart(conn, key, &stored)?,
                event: stored.event,
                // What a session was made with is no transition: each event stands for itself.
                ends: row.first_seq == 1,
            };
            bytes += event.event.len() + event.blob.as_ref().map_or(0, Bytes::len);
            events.push(event);
        }
        Ok(true)
    })?;
    let is_whole = after_seq + events.len() as u64 == session.last_seq;
    if let Some(last) = events.last_mut().filter(|_| is_whole) {
        last.ends = true;
    }
    Ok(transcript)
}

fn blob_apart(
    conn: &Connection,
    key: &SessionKey,
    stored: &StoredEvent,
) -> Result<Option<Bytes>, Stop> {
    let Some(digest) = blob_of(&stored.event) else {
        return Ok(None);
    };
    match blob::get(conn, key, &digest) {
        Err(Stop::Refused(StoreError::NotFound)) => Err(lacks_blob(digest).into()),
        found => found.map(Some),
    }
}

/// What a page brings, checked.
pub(super) struct Brought<'a> {
    page: &'a TranscriptPage,
    /// The blobs that the copy does not have yet, by digest.
    blobs: BTreeMap<String, &'a Bytes>,
    /// The events are the next ones.
    is_next: bool,
}

/// Refuses a page that does not belong to the copy, lacks a blob that an event lists, or with which the
/// session would be too large.
pub(super) fn check<'a>(
    conn: &Connection,
    limits: &Limits,
    page: &'a TranscriptPage,
    staged: &Staged,
) -> Result<Brought<'a>, Stop> {
    if page.transcript.last_seq != staged.cut {
        return Err(StoreError::RequestMismatch.into());
    }
    let events = &page.transcript.events;
    let mut brought = Brought {
        page,
        blobs: BTreeMap::new(),
        is_next: staged.through == page.after_seq,
    };
    let stored_apart = events.iter().flat_map(|event| &event.blob);
    for data in page.blobs.iter().chain(stored_apart) {
        let digest = digest_of(data);
        if blob::length(conn, staged.sid, &digest)?.is_none() {
            brought.blobs.insert(digest, data);
        }
    }
    let blobs: usize = brought.blobs.values().map(|data| data.len()).sum();
    limits.check_session_blobs(staged.blob_bytes + blobs as u64, BlobUse::Event)?;
    if brought.is_next {
        let bytes: usize = events.iter().map(|event| event.event.len()).sum();
        let journal_bytes = staged.journal_bytes + bytes as u64;
        limits.check_journal(staged.cut, journal_bytes, Room::Reserve)?;
        brought.check_listed(conn, staged.sid)?;
    }
    Ok(brought)
}

impl Brought<'_> {
    fn check_listed(&self, conn: &Connection, sid: Option<i64>) -> Result<(), Stop> {
        let numbered = (self.page.after_seq + 1..).zip(&self.page.transcript.events);
        for (seq, event) in numbered {
            for digest in listed(&event.event) {
                let is_new = self.blobs.contains_key(&digest);
                if !is_new && blob::length(conn, sid, &digest)?.is_none() {
                    return Err(StoreError::BlobMissing { seq, digest }.into());
                }
            }
        }
        Ok(())
    }

    /// Writes the blobs, and the events if they are the next ones.
    pub(super) fn append(
        &self,
        conn: &Connection,
        sid: i64,
        staged: &mut Staged,
    ) -> rusqlite::Result<()> {
        let mut insert =
            conn.prepare_cached("INSERT INTO blob (sid, digest, data) VALUES (?1, ?2, ?3)")?;
        for (digest, data) in &self.blobs {
            insert.execute(params![sid, digest, &data[..]])?;
            staged.blob_bytes += data.len() as u64;
        }
        if !self.is_next {
            return Ok(());
        }
        let mut continues = self.page.continues;
        let events = &self.page.transcript.events;
        for transition in events.split_inclusive(|event| event.ends) {
            let events: Vec<_> = transition.iter().map(|event| event.event.clone()).collect();
            let mut packed = match continues {
                true => Packed::continuing(&events),
                false => Packed::new(&events),
            };
            journal::append(conn, sid, staged.through + 1, &mut packed)?;
            staged.through += packed.count;
            staged.journal_bytes += packed.bytes;
            continues = false;
        }
        Ok(())
    }
}

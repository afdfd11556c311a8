//! Journals that leave for an archive or come from one.

use super::super::journal;
use super::super::operation::Stop;
use super::super::pack::Packed;
use super::super::row::Session;
use super::super::{blob, idle};
use super::Staged;
use crate::apart::{blob_of, digest_of, lacks_blob};
use crate::port::{
    COPY_BYTES, Limit, Limits, Room, SessionKey, StoreError, StoredEvent, Transcript,
    TranscriptEvent, TranscriptPage, at_most,
};
use bytes::Bytes;
use rusqlite::{Connection, params};

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
                blob: named_blob(conn, key, &stored)?,
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

fn named_blob(
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

/// Refuses a page that does not belong to the copy, or with which the session would be too large.
pub(super) fn check(limits: &Limits, page: &TranscriptPage, staged: &Staged) -> Result<(), Stop> {
    if page.transcript.last_seq != staged.cut {
        return Err(StoreError::RequestMismatch.into());
    }
    if staged.through != page.after_seq {
        return Ok(());
    }
    let events = &page.transcript.events;
    let bytes: usize = events.iter().map(|event| event.event.len()).sum();
    let blobs: usize = events
        .iter()
        .flat_map(|event| &event.blob)
        .map(Bytes::len)
        .sum();
    let journal_bytes = staged.journal_bytes + bytes as u64;
    limits.check_journal(staged.cut, journal_bytes, Room::Reserve)?;
    let blob_bytes = staged.blob_bytes + blobs as u64;
    at_most(
        blob_bytes,
        limits.session_blob_bytes,
        Limit::SessionBlobBytes,
    )?;
    Ok(())
}

/// Writes the page if it is the next one.
pub(super) fn append(
    conn: &Connection,
    sid: i64,
    page: &TranscriptPage,
    staged: &mut Staged,
) -> rusqlite::Result<()> {
    if staged.through != page.after_seq {
        return Ok(());
    }
    let mut continues = page.continues;
    for transition in page.transcript.events.split_inclusive(|event| event.ends) {
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
    let mut insert =
        conn.prepare_cached("INSERT OR IGNORE INTO blob (sid, digest, data) VALUES (?1, ?2, ?3)")?;
    for data in page.transcript.events.iter().flat_map(|event| &event.blob) {
        let new = insert.execute(params![sid, digest_of(data), &data[..]])?;
        if new > 0 {
            staged.blob_bytes += data.len() as u64;
        }
    }
    Ok(())
}

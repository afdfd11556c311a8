//! Reading journals.

use super::journal;
use super::operation::Stop;
use super::row::{Session, accepted_losses};
use super::schema::{position, seq_of};
use crate::checksum::check_checkpoint;
use crate::port::{Checkpoint, EventPage, Limits, SessionKey, Stored};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// About where a page of events stops.
const PAGE_BYTES: usize = 1 << 20;

/// See [`Store::read`](crate::port::Store::read).
pub(super) fn events(
    conn: &Connection,
    limits: &Limits,
    key: &SessionKey,
    after_seq: u64,
    max: usize,
) -> Result<EventPage, Stop> {
    let session = Session::living(conn, key)?;
    let wanted = (after_seq.saturating_add(1), session.last_seq);
    Ok(EventPage {
        events: journal::read(conn, session.sid, wanted, max, PAGE_BYTES)?,
        last_seq: session.last_seq,
        version: session.version,
        quarantined: session.quarantined,
        accepted_losses: accepted_losses(conn, session.sid)?,
        journal_permille: limits.journal_permille(session.last_seq, session.journal_bytes),
        header: session.into_header(),
    })
}

/// See [`Store::checkpoint`](crate::port::Store::checkpoint).
pub(super) fn checkpoint(
    conn: &Connection,
    key: &SessionKey,
    at_or_before_seq: u64,
) -> Result<Option<Checkpoint>, Stop> {
    let session = Session::living(conn, key)?;
    let newest = at_or_before_seq.min(session.last_seq);
    let rows = params![position(session.sid, 0), position(session.sid, newest)];
    let checkpoint = |row: &Row<'_>| {
        let state: Vec<u8> = row.get(1)?;
        let checkpoint = Checkpoint {
            through_seq: seq_of(row.get(0)?),
            state: state.into(),
        };
        Ok((checkpoint, u32::try_from(row.get::<_, i64>(2)?).ok()))
    };
    let found = conn
        .prepare_cached(
            "SELECT pos, state, sum FROM checkpoint WHERE pos BETWEEN ?1 AND ?2 \
             ORDER BY pos DESC LIMIT 1",
        )?
        .query_row(rows, checkpoint)
        .optional()
        .map_err(Stop::reading(Stored::Checkpoint(newest)))?;
    let Some((checkpoint, sum)) = found else {
        return Ok(None);
    };
    check_checkpoint(&checkpoint, sum)?;
    Ok(Some(checkpoint))
}

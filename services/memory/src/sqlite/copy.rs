//! Sessions that begin as copies of others.
//!
//! A child that is not complete is a row of `session` that no name leads to: its namespace is empty,
//! which none is, and its id holds namespace and session. Its other columns say where it stands:
//! `op_id` the source (empty for a transcript), `op_first_seq` the cut, `last_seq` how far it is
//! copied. Completing it gives it its name.

mod source;
mod transcript;

pub(super) use transcript::read as read_transcript;

use super::commit::announce_events;
use super::operation::{Operation, Stop, Tx};
use super::pack::Packed;
use super::row::{Session, find_request, keep_request};
use super::schema::to_i64;
use super::{idle, journal, memory, removal, waiting};
use crate::hub::Hub;
use crate::port::{
    Completion, Copied, CopyEvents, Level, Room, SessionKey, Source, StoreError, TranscriptPage,
    UNFINISHED_MS, pending_text, tenth,
};
use rusqlite::params;

const BEGIN: &str = "INSERT INTO session (namespace, id, created_ms, updated_ms, status, last_seq, \
    journal_bytes, handled_through, last_command_seq, floor_seq, op_id, op_first_seq, epoch, \
    lease_until_ms, title) VALUES ('', ?1, ?2, ?2, 0, 0, 0, 0, 0, 0, ?3, ?4, 0, 0, '')";

const COMPLETE: &str = "UPDATE session SET namespace = ?2, id = ?3, created_ms = ?4, \
    updated_ms = ?4, status = ?5, last_seq = ?6, journal_bytes = ?7, handled_through = ?8, \
    floor_seq = ?6, op_id = '', op_first_seq = 1, due_ms = ?9, memory_keys = ?10, \
    memory_bytes = ?11, title = ?12, epoch = ?13, \
    version = ?14, agent = ?15, tokens = ?16, cost_nano_usd = ?17, pending = ?18, changed = ?19, \
    needs = ?20 WHERE sid = ?1";

pub(super) const UNFINISHED: &str =
    "SELECT sid FROM session WHERE namespace = '' AND updated_ms <= ?1 LIMIT ?2";

/// See [`Store::copy_events`](crate::port::Store::copy_events).
pub(super) struct CopyOp {
    copy: CopyEvents,
    /// The first number of the events that complete the child, once they have.
    completed: Option<u64>,
}

/// A child that is not complete.
struct Staged {
    /// `None` before it is begun.
    sid: Option<i64>,
    cut: u64,
    through: u64,
    journal_bytes: u64,
    blob_bytes: u64,
}

/// Where the events come from, as the store has it.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Session(&'a Session),
    Page(&'a TranscriptPage),
}

impl CopyOp {
    pub(super) fn new(copy: CopyEvents) -> Self {
        Self {
            copy,
            completed: None,
        }
    }

    /// Whether it is this request that made the session.
    fn is_ours(&self, tx: &Tx<'_>, session: &Session) -> Result<u64, Stop> {
        let request = &self.copy.request;
        match find_request(tx.conn, session.sid, &request.id)? {
            Some((digest, cut)) if digest == request.digest => Ok(cut),
            _ => Err(StoreError::RequestMismatch.into()),
        }
    }

    fn staged(&self, tx: &Tx<'_>, origin: Origin<'_>) -> Result<Staged, Stop> {
        let Some(session) = Session::find(tx.conn, &hidden(&self.copy.child))? else {
            return Ok(Staged {
                sid: None,
                cut: match origin {
                    Origin::Session(source) => source::cut(tx.conn, source, self.copy.at_seq)?,
                    Origin::Page(page) => page.transcript.last_seq,
                },
                through: 0,
                journal_bytes: 0,
                blob_bytes: 0,
            });
        };
        self.is_ours(tx, &session)?;
        if session.op_id != self.copy.source.id() {
            return Err(StoreError::RequestMismatch.into());
        }
        Ok(Staged {
            sid: Some(session.sid),
            cut: session.op_first_seq,
            through: session.last_seq,
            journal_bytes: session.journal_bytes,
            blob_bytes: session.blob_bytes,
        })
    }

    /// Copies some more; whatever may be refused has been read by then.
    fn go_on(&self, tx: &Tx<'_>, origin: Origin<'_>, staged: &mut Staged) -> Result<(), Stop> {
        let sid = match origin {
            Origin::Session(source) => {
                let batch = source::read(tx.conn, source.sid, staged)?;
                let sid = self.begun(tx, staged)?;
                source::append(tx.conn, source.sid, sid, &batch, staged)?;
                sid
            }
            Origin::Page(page) => {
                let brought = transcript::check(tx.conn, tx.limits(), page, staged)?;
                let sid = self.begun(tx, staged)?;
                brought.append(tx.conn, sid, staged)?;
                sid
            }
        };
        tx.conn
            .prepare_cached(
                "UPDATE session SET updated_ms = ?2, last_seq = ?3, journal_bytes = ?4, \
                 blob_bytes = ?5 WHERE sid = ?1",
            )?
            .execute(params![
                sid,
                tx.now,
                to_i64(staged.through),
                to_i64(staged.journal_bytes),
                to_i64(staged.blob_bytes),
            ])?;
        Ok(())
    }

    fn begun(&self, tx: &Tx<'_>, staged: &Staged) -> rusqlite::Result<i64> {
        match staged.sid {
            Some(sid) => Ok(sid),
            None => self.begin(tx, staged.cut),
        }
    }

    fn begin(&self, tx: &Tx<'_>, cut: u64) -> rusqlite::Result<i64> {
        let CopyEvents {
            source,
            child,
            request,
            ..
        } = &self.copy;
        let id = hidden(child);
        tx.conn.prepare_cached(BEGIN)?.execute(params![
            id.session(),
            tx.now,
            source.id(),
            to_i64(cut)
        ])?;
        let sid = tx.conn.last_insert_rowid();
        keep_request(tx.conn, sid, &request.id, &request.digest, cut)?;
        Ok(sid)
    }

    /// `mark` is what is left of an earlier session of the child's name.
    fn complete(
        &self,
        tx: &Tx<'_>,
        origin: Origin<'_>,
        staged: &Staged,
        completion: &Completion,
        mark: Option<&Session>,
    ) -> Result<(), Stop> {
        let Some(sid) = staged.sid.filter(|_| staged.through == staged.cut) else {
            return Err(StoreError::Conflict.into());
        };
        let mut packed = Packed::new(&completion.events);
        let last = staged.cut + packed.count;
        let journal_bytes = staged.journal_bytes + packed.bytes;
        tx.limits()
            .check_journal(last, journal_bytes, Room::Reserve)?;
        let (ttl, needs) = match origin {
            Origin::Session(source) => (idle::time_to_live(tx.conn, source.sid)?, source.needs),
            Origin::Page(page) => (page.transcript.time_to_live_ms, Level::FIRST),
        };
        if let Some(mark) = mark {
            removal::hide(tx, mark.sid)?;
        }
        journal::append(tx.conn, sid, staged.cut + 1, &mut packed)?;
        let mut memory_bytes = 0;
        for entry in &completion.memory {
            memory::insert(tx.conn, sid, entry)?;
            memory_bytes += entry.bytes() as u64;
        }
        let (child, header) = (&self.copy.child, &completion.header);
        tx.conn.prepare_cached(COMPLETE)?.execute(params![
            sid,
            child.namespace(),
            child.session(),
            tx.now,
            header.status.number(),
            to_i64(last),
            to_i64(journal_bytes),
            to_i64(header.handled_through),
            completion.due_unix_ms,
            to_i64(completion.memory.len() as u64),
            to_i64(memory_bytes),
            header.title,
            // Late owners of an earlier session stay fenced, and are not told that their transitions
            // are lost.
            to_i64(mark.map_or(0, |mark| mark.epoch)),
            to_i64(mark.map_or(0, |mark| mark.version)),
            header.agent,
            to_i64(header.tokens),
            to_i64(header.cost_nano_usd),
            pending_text(&header.pending),
            to_i64(tenth(tx.now)),
            needs.max(header.needs).number(),
        ])?;
        idle::enter(tx.conn, sid, ttl, tx.now)?;
        waiting::note(tx.conn, sid, "", header, tx.now)?;
        Ok(())
    }
}

impl Operation for CopyOp {
    type Answer = Copied;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Copied, Stop> {
        self.completed = None;
        let answer = |cut_seq, copied_through, is_complete| Copied {
            cut_seq,
            copied_through,
            is_complete,
            now_unix_ms: tx.now,
        };
        let child = Session::find(tx.conn, &self.copy.child)?;
        let mark = match child {
            None => None,
            Some(child) => match child.end {
                None => {
                    let cut = self.is_ours(tx, &child)?;
                    return Ok(answer(cut, cut, true));
                }
                Some(end) if self.copy.source.revives(end) => Some(child),
                Some(end) => return Err(StoreError::Terminal(end).into()),
            },
        };
        let source;
        let origin = match &self.copy.source {
            Source::Session(key) => {
                source = Session::living(tx.conn, key)?;
                Origin::Session(&source)
            }
            Source::Transcript(page) => Origin::Page(page),
        };
        let mut staged = self.staged(tx, origin)?;
        match &self.copy.completion {
            Some(completion) => {
                self.complete(tx, origin, &staged, completion, mark.as_ref())?;
                self.completed = Some(staged.cut + 1);
            }
            None => self.go_on(tx, origin, &mut staged)?,
        }
        tx.step();
        Ok(answer(staged.cut, staged.through, self.completed.is_some()))
    }

    fn announce(&self, hub: &Hub) {
        if let (Some(first_seq), Some(completion)) = (self.completed, &self.copy.completion) {
            announce_events(hub, &self.copy.child, first_seq, &completion.events);
            hub.work();
        }
    }
}

/// The name of a child that is not complete.
fn hidden(child: &SessionKey) -> SessionKey {
    let id = format!("{}/{}", child.namespace(), child.session());
    SessionKey::new("", id)
}

/// See [`Store::drop_unfinished`](crate::port::Store::drop_unfinished).
pub(super) struct DropOp {
    pub(super) max: usize,
}

impl Operation for DropOp {
    type Answer = usize;

    const ONLY_IF_AWAITED: bool = true;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<usize, Stop> {
        let max = i64::try_from(self.max).unwrap_or(i64::MAX);
        let before = tx.now.saturating_sub(UNFINISHED_MS);
        let sids: Vec<i64> = tx
            .conn
            .prepare_cached(UNFINISHED)?
            .query_map(params![before, max], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for &sid in &sids {
            removal::hide(tx, sid)?;
        }
        Ok(sids.len())
    }
}

//! Listings, from the rows of `session` alone.

use super::operation::Stop;
use super::schema::{to_i64, to_u64};
use crate::port::{
    Level, ListOrder, ListQuery, MOST_LOOKED_AT, PageToken, Quarantine, SessionEntry, SessionPage,
    SessionStatus, pending_of,
};
use rusqlite::{Connection, Row, params};

/// A listing with the columns of [`entry`], by an index that has the order: `?1` is the namespace,
/// `?2` and `?3` the place from which on, `?4` how many rows.
macro_rules! select {
    ($from:literal, $order:literal) => {
        concat!(
            "SELECT sid, id, status, created_ms, updated_ms, last_seq, quarantined, title, agent, \
             tokens, cost_nano_usd, pending, changed, needs FROM session INDEXED BY ",
            $from,
            " AND namespace = ?1 AND deleted_ms IS NULL ORDER BY ",
            $order,
            " LIMIT ?4"
        )
    };
}

pub(super) const NEWEST: &str = select!("session_living WHERE sid < ?2 AND ?3 = ?3", "sid DESC");
pub(super) const OLDEST: &str = select!("session_living WHERE sid > ?2 AND ?3 = ?3", "sid");
pub(super) const NEWEST_ASKING: &str = select!(
    "session_asking WHERE sid < ?2 AND ?3 = ?3 AND pending <> '-'",
    "sid DESC"
);
pub(super) const OLDEST_ASKING: &str = select!(
    "session_asking WHERE sid > ?2 AND ?3 = ?3 AND pending <> '-'",
    "sid"
);
pub(super) const LAST_CHANGED: &str = select!(
    "session_changed WHERE (changed, id) < (?2, ?3)",
    "changed DESC, id DESC"
);
pub(super) const FIRST_CHANGED: &str = select!(
    "session_changed WHERE (changed, id) > (?2, ?3)",
    "changed, id"
);

/// See [`Store::list`](crate::port::Store::list).
pub(super) fn sessions(
    conn: &Connection,
    namespace: &str,
    query: &ListQuery,
) -> Result<SessionPage, Stop> {
    let (number, session) = start(query);
    let one_more = i64::try_from(MOST_LOOKED_AT).unwrap_or(i64::MAX) + 1;
    let mut select = conn.prepare_cached(statement(query))?;
    let mut rows = select.query(params![namespace, number, session, one_more])?;
    let passes = query.filter.test();
    let (first, last) = query.filter.tenths();
    let mut page = SessionPage::default();
    let (mut looked_at, mut place) = (0, None);
    while let Some(row) = rows.next()? {
        if page.sessions.len() == query.max || looked_at == MOST_LOOKED_AT {
            page.next = place;
            break;
        }
        looked_at += 1;
        let entry = entry(row)?;
        let changed: u64 = to_u64(row.get(12)?);
        let is_beyond = match query.is_ascending {
            true => changed > last,
            false => changed < first,
        };
        if query.order == ListOrder::Changed && is_beyond {
            break;
        }
        place = Some(PageToken {
            number: match query.order {
                ListOrder::Created => to_u64(row.get(0)?),
                ListOrder::Changed => changed,
            },
            session: entry.session.clone(),
        });
        if passes(&entry) {
            page.sessions.push(entry);
        }
    }
    Ok(page)
}

/// Sessions are numbered in the order of their creation.
fn statement(query: &ListQuery) -> &'static str {
    let is_asking = query.filter.asks_pending();
    match (query.order, query.is_ascending) {
        (ListOrder::Created, false) if is_asking => NEWEST_ASKING,
        (ListOrder::Created, true) if is_asking => OLDEST_ASKING,
        (ListOrder::Created, false) => NEWEST,
        (ListOrder::Created, true) => OLDEST,
        (ListOrder::Changed, false) => LAST_CHANGED,
        (ListOrder::Changed, true) => FIRST_CHANGED,
    }
}

/// The place after which the page begins. What no filter passes is not looked at.
fn start(query: &ListQuery) -> (i64, String) {
    let (first, last) = query.filter.tenths();
    if let Some(PageToken { number, session }) = &query.from {
        return (to_i64(*number), session.clone());
    }
    let number = match (query.order, query.is_ascending) {
        (ListOrder::Created, false) => i64::MAX,
        (ListOrder::Created, true) => 0,
        // No id is empty.
        (ListOrder::Changed, false) => to_i64(last) + 1,
        (ListOrder::Changed, true) => to_i64(first),
    };
    (number, String::new())
}

fn entry(row: &Row<'_>) -> rusqlite::Result<SessionEntry> {
    let pending: String = row.get(11)?;
    Ok(SessionEntry {
        session: row.get(1)?,
        status: SessionStatus::of_number(row.get(2)?),
        created_unix_ms: row.get(3)?,
        updated_unix_ms: row.get(4)?,
        last_seq: to_u64(row.get(5)?),
        quarantined: Quarantine::of_number(row.get(6)?),
        title: row.get(7)?,
        agent: row.get(8)?,
        tokens: to_u64(row.get(9)?),
        cost_nano_usd: to_u64(row.get(10)?),
        pending: pending_of(&pending),
        needs: Level::of_stored(row.get(13)?),
    })
}

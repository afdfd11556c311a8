//! Checkpoints: written with a transition, and removed when newer ones take their place.

use super::schema::{position, seq_of};
use crate::port::Checkpoint;
use crate::retention::superseded;
use rusqlite::{Connection, ErrorCode, params};

/// Writes a checkpoint in place of any with its number, and removes those that it supersedes.
pub(super) fn keep(
    conn: &Connection,
    sid: i64,
    checkpoint: &Checkpoint,
    sum: u32,
) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO checkpoint (pos, state, sum) VALUES (?1, ?2, ?3)")?
        .execute(params![
            position(sid, checkpoint.through_seq),
            &checkpoint.state[..],
            sum
        ])?;
    match prune(conn, sid) {
        // A damaged checkpoint only costs time, and is not to stop its session.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            tracing::error!(%error, "damaged checkpoint not removed");
            Ok(())
        }
        pruned => pruned,
    }
}

fn prune(conn: &Connection, sid: i64) -> rusqlite::Result<()> {
    let mut select =
        conn.prepare_cached("SELECT pos FROM checkpoint WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos")?;
    let all = (position(sid, 0), position(sid, u64::MAX));
    let positions = select.query_map(all, |row| row.get(0))?;
    let seqs: Vec<u64> = positions
        .map(|position| position.map(seq_of))
        .collect::<Result<_, _>>()?;
    let mut delete = conn.prepare_cached("DELETE FROM checkpoint WHERE pos = ?1")?;
    for seq in superseded(&seqs) {
        delete.execute([position(sid, seq)])?;
    }
    Ok(())
}

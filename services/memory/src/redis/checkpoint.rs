//! Checkpoints: stored and read by bare commands, which copy a large state less often than a script.
//!
//! The state is stored before the transition, and the transition's script puts its name into the index
//! (a sorted set by seq). A name has the digest of the state, so it never stands for two states, and
//! storing one again changes nothing. A state without an entry in the index is read by nobody: its owner
//! died before the transition, or was fenced. The script of the next transition with a checkpoint
//! removes it. Only that script removes states, after it has checked that its sender is the owner, so a
//! former owner cannot remove or replace those of its successor.

use super::answer::not_refused;
use super::failure::{Effect, odd};
use super::inner::Inner;
use super::keys::Session;
use super::script::{Odd, Reply};
use crate::apart::digest_of;
use crate::checksum::{check_checkpoint, of_checkpoint};
use crate::port::{Checkpoint, Commit, SessionKey, StoreError, StoreResult};
use crate::retention::superseded;
use bytes::{Buf as _, Bytes};
use redis::RedisWrite as _;
use std::collections::BTreeSet;
use std::io::Write as _;

/// Digits of a digest in a name.
const DIGITS: usize = 32;

/// What the script of a transition needs to know of its checkpoint.
#[derive(Debug, Default)]
pub(super) struct StoredCheckpoint {
    /// Empty if none is stored.
    pub(super) name: String,
    /// The names that go with the transition, separated by blanks.
    pub(super) to_remove: String,
}

/// The names of a session's states, and its owner.
struct Stored {
    epoch: u64,
    owner: String,
    indexed: Vec<String>,
    states: Vec<String>,
}

impl Inner {
    /// Stores the transition's checkpoint, if it has one that is to stay. Nothing is stored for a
    /// transition that the script is going to refuse.
    pub(super) async fn store_checkpoint(
        &self,
        names: &Session,
        commit: &Commit,
    ) -> StoreResult<StoredCheckpoint> {
        let Some(checkpoint) = &commit.checkpoint else {
            return Ok(StoredCheckpoint::default());
        };
        let stored = self.stored_checkpoints(names).await?;
        let through = checkpoint.through_seq;
        let is_owner = (stored.epoch, &stored.owner) == (commit.epoch, &commit.owner);
        let is_possible = is_owner && through <= commit.seen_seq;
        let mut seqs: Vec<u64> = stored.indexed.iter().filter_map(|it| seq_of(it)).collect();
        seqs.push(through);
        seqs.sort_unstable();
        seqs.dedup();
        let superseded = superseded(&seqs);
        if !is_possible || superseded.contains(&through) {
            return Ok(StoredCheckpoint::default());
        }
        let name = name_of(checkpoint).await?;
        let mut set = redis::cmd("HSET");
        set.arg(names.checkpoints()).arg(&name);
        let mut value = set.writer_for_next_arg();
        // Writing to memory does not fail.
        let _ = value.write_all(&of_checkpoint(checkpoint).to_le_bytes());
        let _ = value.write_all(&checkpoint.state);
        drop(value);
        let (partition, bytes) = (names.partition.number, checkpoint.state.len());
        self.servers
            .send_value(partition, set, bytes, Effect::Writes)
            .await?;
        let stays = |it: &&String| {
            let seq = seq_of(it).filter(|_| stored.indexed.contains(it));
            **it == name || seq.is_some_and(|seq| seq != through && !superseded.contains(&seq))
        };
        let all: BTreeSet<_> = stored.states.iter().chain(&stored.indexed).collect();
        let to_remove: Vec<_> = all.into_iter().filter(|it| !stays(it)).cloned().collect();
        Ok(StoredCheckpoint {
            to_remove: to_remove.join(" "),
            name,
        })
    }

    /// Only the owner adds to them, so the owner's next transition finds them as they are now.
    async fn stored_checkpoints(&self, names: &Session) -> StoreResult<Stored> {
        let mut owner = redis::cmd("HMGET");
        owner.arg(names.hash()).arg(&["ep", "ow"]);
        let mut index = redis::cmd("ZRANGE");
        index.arg(names.checkpoint_numbers()).arg(0).arg(-1);
        let mut states = redis::cmd("HKEYS");
        states.arg(names.checkpoints());
        let questions = [owner, index, states].map(|cmd| (names.partition.number, cmd));
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let mut all = || {
            let mut owner = answers.array()?;
            Ok(Stored {
                epoch: number(owner.optional()?).unwrap_or(0),
                owner: text(owner.optional()?).unwrap_or_default(),
                indexed: texts(answers.array()?)?,
                states: texts(answers.array()?)?,
            })
        };
        all().map_err(|error| odd(Effect::Reads, error))
    }

    /// See [`Store::checkpoint`](crate::port::Store::checkpoint).
    pub(super) async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> StoreResult<Option<Checkpoint>> {
        let names = self.names.session(key);
        let (mut newest, mut missing) = (at_or_before_seq, String::new());
        while let Some(name) = self.nearest(&names, newest).await? {
            let through_seq = seq_of(&name).ok_or_else(|| odd(Effect::Reads, Odd))?;
            if let Some(mut state) = self.state(&names, &name).await? {
                // The checksum stands before the state.
                let sum = state.try_get_u32_le().ok();
                let checkpoint = Checkpoint { through_seq, state };
                check_checkpoint(&checkpoint, sum)?;
                return Ok(Some(checkpoint));
            }
            // It was removed since, and then the index has it no more; else the next older one serves.
            if missing == name {
                newest = through_seq.saturating_sub(1);
            }
            missing = name;
        }
        Ok(None)
    }

    async fn nearest(&self, names: &Session, newest: u64) -> StoreResult<Option<String>> {
        let mut session = redis::cmd("HMGET");
        session.arg(names.hash()).arg(&["f", "del"]);
        let mut nearest = redis::cmd("ZRANGE");
        nearest.arg(names.checkpoint_numbers()).arg(newest);
        nearest.arg(&["-inf", "BYSCORE", "REV", "LIMIT", "0", "1"]);
        let questions = [session, nearest].map(|cmd| (names.partition.number, cmd));
        let mut answers = Reply::of(self.servers.ask_all(questions).await?);
        let mut all = || {
            let mut session = answers.array()?;
            let (format, deleted) = (session.optional()?, session.optional()?);
            Ok((format, deleted, texts(answers.array()?)?))
        };
        let (format, deleted, names) = all().map_err(|error| odd(Effect::Reads, error))?;
        not_refused(self.formats, format, deleted)?;
        Ok(names.into_iter().next())
    }

    async fn state(&self, names: &Session, name: &str) -> StoreResult<Option<Bytes>> {
        let about = |command: &str| {
            let mut cmd = redis::cmd(command);
            cmd.arg(names.checkpoints()).arg(name);
            cmd
        };
        let lost = |error| odd(Effect::Reads, error);
        let partition = names.partition.number;
        let size = self
            .servers
            .ask_all([(partition, about("HSTRLEN"))])
            .await?;
        let size = Reply::of(size).number().map_err(lost)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let state = (self.servers)
            .send_value(partition, about("HGET"), size, Effect::Reads)
            .await?;
        Reply::of(vec![state]).optional().map_err(lost)
    }
}

/// The name of a checkpoint's state: its seq, and the beginning of its digest.
async fn name_of(checkpoint: &Checkpoint) -> StoreResult<String> {
    let state = checkpoint.state.clone();
    // It takes some milliseconds for a large one.
    let digest = tokio::task::spawn_blocking(move || digest_of(&state));
    let digest = digest.await.map_err(StoreError::unavailable)?;
    let digits = digest.get(..DIGITS).unwrap_or_default();
    Ok(format!("{}.{digits}", checkpoint.through_seq))
}

fn seq_of(name: &str) -> Option<u64> {
    name.split_once('.')?.0.parse().ok()
}

fn text(value: Option<Bytes>) -> Option<String> {
    String::from_utf8(value?.into()).ok()
}

fn number(value: Option<Bytes>) -> Option<u64> {
    text(value)?.parse().ok()
}

fn texts(mut values: Reply) -> Result<Vec<String>, Odd> {
    let mut texts = Vec::with_capacity(values.len());
    while values.len() > 0 {
        texts.push(values.text()?);
    }
    Ok(texts)
}

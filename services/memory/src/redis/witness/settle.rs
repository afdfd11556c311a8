//! What becomes of sessions that lack what was answered: they are quarantined, and it is told.

use super::Witness;
use super::loss::{Loss, Lost};
use super::stored::Stored;
use crate::aside;
use crate::port::{Quarantine, SessionKey, StoreResult};
use crate::redis::failure::{is_elsewhere, is_misplaced};
use crate::redis::keys;
use crate::redis::node::{Live, Node, Trouble};
use crate::redis::script::Reply;
use cairn_rpc::metrics::{self, counter};
use redis::{Pipeline, RedisError, Value};
use std::collections::{BTreeSet, HashSet};

/// Sessions that are named in the log; the others are counted.
const NAMED: usize = 100;

/// Where sessions could not be quarantined, by partition.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// They are on their way to another server.
    pub(super) away: BTreeSet<u16>,
    /// The server does not take the mark.
    pub(super) refused: BTreeSet<u16>,
}

impl Witness {
    /// Sets the sessions aside and tells of them. A server that takes no writes, as one that is full
    /// or waits for replicas, is no reason to keep it back: then it is told at once, and once, and the
    /// sessions are quarantined when somebody looks again.
    pub(super) async fn settle(
        &self,
        node: &Node,
        live: &Live,
        lost: Vec<Lost>,
        given: Option<i64>,
    ) -> StoreResult<Settled> {
        let (accepted, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(Lost::is_accepted);
        self.tell_accepted(node, &accepted);
        let mut settled = Settled::default();
        if lost.is_empty() {
            return Ok(settled);
        }
        let lost = self
            .put_aside(node, live, lost, given, &mut settled)
            .await?;
        // Also just now.
        let (accepted, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(Lost::is_accepted);
        self.tell_accepted(node, &accepted);
        let (told, news): (Vec<_>, Vec<_>) = lost.into_iter().partition(|it| self.is_told(it));
        if !news.is_empty() {
            self.tell(node, &news);
        }
        for it in news.iter().chain(&told) {
            self.keep_or_forget(it);
        }
        Ok(settled)
    }

    /// What is left of the sessions is not gone on with. Gives all but those that are on their way to
    /// another server.
    async fn put_aside(
        &self,
        node: &Node,
        live: &Live,
        lost: Vec<Lost>,
        given: Option<i64>,
        settled: &mut Settled,
    ) -> StoreResult<Vec<Lost>> {
        let commands = self.marks_of(&lost, given);
        let done = node.send_each_over(live.clone(), commands).await;
        // The first answer is that of the script, which is known now.
        let mut done = done
            .map_err(|trouble| trouble.told(node))?
            .into_iter()
            .skip(1);
        let mut found = Vec::new();
        for mut it in lost {
            let is_left = matches!(it.stored, Stored::At(_));
            let answer = is_left.then(|| done.next()).flatten();
            match answer.map(|answer| answer.map(parse_set_aside)) {
                Some(Ok(Some(1))) => aside::tell(&it.key, Quarantine::WritesLost),
                Some(Ok(Some(-1))) => it.accept(),
                Some(Err(error)) if is_elsewhere(&error) => {
                    settled.away.insert(keys::partition(&it.key));
                    continue;
                }
                // What it has is not what counts.
                Some(Err(error)) if is_misplaced(&error) => {
                    return Err(Trouble::Failed(error).told(node));
                }
                Some(Err(error)) => {
                    settled.refused.insert(keys::partition(&it.key));
                    it.refusal = Some(refusal(&error));
                }
                // Somebody else was faster, and has told.
                Some(Ok(_)) | None => {}
            }
            found.push(it);
        }
        Ok(found)
    }

    /// The script, and a call of it for each session of which something is left.
    fn marks_of(&self, lost: &[Lost], given: Option<i64>) -> Pipeline {
        let mut commands = Pipeline::new();
        commands.add_command(self.quarantine.load());
        for Lost {
            key, known, stored, ..
        } in lost
        {
            if let Stored::At(_) = stored {
                let names = self.names.session(key);
                let keys = names.for_setting_aside();
                let call = self.quarantine.call(&keys).arg(&names.member);
                // It may be accepted just now.
                let call = call.arg(known.accepted_losses);
                let call = match given {
                    Some(now) => call.arg(now),
                    None => call,
                };
                commands.add_command(call.cmd);
            }
        }
        commands
    }

    fn tell(&self, node: &Node, lost: &[Lost]) {
        let server = node.name();
        for it in lost.iter().take(NAMED) {
            let session = format!("{}/{}", it.key.namespace(), it.key.session());
            let (version, seq) = match it.stored {
                Stored::At(mark) => (mark.version, mark.seq),
                Stored::Nothing | Stored::Deleted => (0, 0),
            };
            let left = it.left();
            tracing::error!(
                server,
                session,
                known_version = it.known.version,
                known_seq = it.known.seq,
                version,
                seq,
                left,
                "acknowledged writes of a session are lost"
            );
        }
        let sessions = lost.len();
        tracing::error!(
            server,
            sessions,
            "the server has another state than it had: acknowledged writes are lost"
        );
        // Whoever is told finds it counted.
        self.count(sessions as u64);
        lost.iter().for_each(|it| self.tell_followers(it));
    }

    /// The same of losses that somebody has accepted since they were known of here: nothing is left
    /// to be done, except for those who have seen what is gone.
    fn tell_accepted(&self, node: &Node, lost: &[Lost]) {
        if !lost.is_empty() {
            tracing::info!(
                server = node.name(),
                sessions = lost.len(),
                "acknowledged writes are lost that this process knew of, and that was accepted"
            );
        }
        for it in lost {
            self.tell_followers(it);
            self.keep_or_forget(it);
        }
    }

    fn tell_followers(&self, it: &Lost) {
        let last_seq = match it.stored {
            Stored::At(mark) => mark.seq,
            Stored::Nothing | Stored::Deleted => 0,
        };
        match it.loss {
            Loss::Behind => self.hub.lost(&it.key, last_seq, last_seq),
            // Others before it may be others, too.
            Loss::Overwritten { seq } => self.hub.lost(&it.key, seq.saturating_sub(1), 0),
        }
    }

    /// What is told of a session that could not be quarantined yet, as if it were: nobody is to go on
    /// from what is left of it, nor from a copy.
    pub(in crate::redis) fn known_loss(&self, key: &SessionKey) -> Option<Quarantine> {
        let is_told = self.told().contains_key(key);
        is_told.then_some(Quarantine::WritesLost)
    }

    fn is_told(&self, it: &Lost) -> bool {
        self.told().contains_key(&it.key)
    }

    /// What is not quarantine yet has to be found again, and is not told again then.
    fn keep_or_forget(&self, it: &Lost) {
        if it.refusal.is_some() {
            self.told().insert(it.key.clone(), it.known);
        } else {
            self.forget(keys::partition(&it.key), &keys::member(&it.key));
            self.told().remove(&it.key);
        }
    }

    /// What was told and is there again, as after a failover back, would be told anew if it were lost
    /// again. `has` says of a partition whether it was looked at.
    pub(super) fn forget_told(&self, has: impl Fn(u16) -> bool, lost: &[Lost]) {
        let mut told = self.told();
        if !told.is_empty() {
            let lost: HashSet<_> = lost.iter().map(|it| &it.key).collect();
            told.retain(|key, _| !has(keys::partition(key)) || lost.contains(key));
        }
    }

    pub(in crate::redis) fn count(&self, losses: u64) {
        counter!(metrics::LOST_WRITES, "seen_by" => "store").increment(losses);
        self.losses.send_modify(|known| *known += losses);
    }
}

/// Why the server does not take it: the code of its error, as `OOM`.
fn refusal(error: &RedisError) -> String {
    error.code().unwrap_or("an error").to_owned()
}

/// What the script of that name answers for a session, if it did not refuse.
fn parse_set_aside(answer: Value) -> Option<i64> {
    let words = Reply::new(answer).and_then(|mut words| Ok((words.text()?, words.int()?)));
    words
        .ok()
        .filter(|(word, _)| word == "ok")
        .map(|(_, new)| new)
}

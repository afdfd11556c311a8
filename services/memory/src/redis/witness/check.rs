//! Whether a server has what was answered.

use super::loss::{Loss, Lost, loss};
use super::stored::{Stored, answer, text};
use super::{Mark, Witness};
use crate::aside;
use crate::fingerprint::Fingerprint;
use crate::hub::Followed;
use crate::port::{Quarantine, SessionKey, StoreResult};
use crate::redis::failure::{Effect, is_elsewhere, odd};
use crate::redis::keys::{self, PARTITIONS, session_of};
use crate::redis::node::{Live, Node, Trouble};
use crate::redis::script::Reply;
use cairn_rpc::metrics::{self, counter};
use redis::{Pipeline, Value};
use std::collections::{BTreeSet, HashMap};

/// Sessions that are asked about at once.
const AT_ONCE: usize = 256;

/// Sessions that are named in the log; the others are counted.
const NAMED: usize = 100;

/// What of a server was held against what is known.
#[derive(Debug)]
pub(in crate::redis) struct Checked {
    /// By partition.
    looks: Vec<Look>,
}

/// What came of looking at a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Look {
    /// Its sessions were held against what is known.
    Taken,
    /// Some of its keys were on their way to another server of the cluster.
    InVain,
    /// It was not the server's.
    NotHere,
}

impl Checked {
    fn new(has: impl Fn(u16) -> bool, away: &BTreeSet<u16>) -> Self {
        let look = |partition| match has(partition) {
            false => Look::NotHere,
            true if away.contains(&partition) => Look::InVain,
            true => Look::Taken,
        };
        Self {
            looks: (0..PARTITIONS).map(look).collect(),
        }
    }

    /// Whether that was all that the server has.
    pub(in crate::redis) fn is_whole(&self) -> bool {
        !self.looks.contains(&Look::InVain)
    }

    pub(in crate::redis) fn of(&self, partition: u16) -> Look {
        self.looks[usize::from(partition % PARTITIONS)]
    }
}

/// What a server has of a session, and the event in the place of the last that is known.
type Found = (Stored, Option<Fingerprint>);

impl Witness {
    /// Holds what a server has against what was answered of its partitions, and sets aside what has
    /// lost something. `given` is the time that scripts are given, if they are given one. What is on
    /// its way to another server keeps no other partition waiting.
    pub(in crate::redis) async fn check(
        &self,
        node: &Node,
        live: &Live,
        has: impl Fn(u16) -> bool,
        given: Option<i64>,
    ) -> StoreResult<Checked> {
        let mut away = BTreeSet::new();
        if has(0) && !self.check_identity(node, live).await? {
            away.insert(0);
        }
        let mut lost = Vec::new();
        for part in self.known(&has).chunks(AT_ONCE) {
            let looks = self.look(node, live, part).await?;
            for ((key, known), look) in part.iter().zip(looks) {
                let Some((stored, there)) = look else {
                    away.insert(keys::partition(key));
                    continue;
                };
                if let Some(loss) = loss(known, stored, there) {
                    lost.push(Lost {
                        key: key.clone(),
                        known: *known,
                        stored,
                        loss,
                    });
                }
            }
        }
        let (accepted, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(Lost::is_accepted);
        self.tell_accepted(node, &accepted);
        let lost = match lost.is_empty() {
            true => lost,
            false => self.put_aside(node, live, lost, given, &mut away).await?,
        };
        // Also just now.
        let (accepted, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(Lost::is_accepted);
        self.tell_accepted(node, &accepted);
        if !lost.is_empty() {
            self.tell(node, &lost);
        }
        Ok(Checked::new(has, &away))
    }

    /// What a server has of sessions; nothing of those that are on their way to another.
    async fn look(
        &self,
        node: &Node,
        live: &Live,
        sessions: &[(SessionKey, Mark)],
    ) -> StoreResult<Vec<Option<Found>>> {
        let questions = self.questions(sessions);
        let answers = node.send_each_over(live.clone(), questions).await;
        let mut answers = answers.map_err(|trouble| trouble.told(node))?.into_iter();
        let looks = sessions.iter().map(|(_, known)| {
            let count = 1 + usize::from(known.event.is_some());
            let own: Vec<_> = answers.by_ref().take(count).collect();
            match own.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(own) => {
                    let look = answer(known, &mut own.into_iter());
                    look.map(Some).map_err(|error| odd(Effect::Reads, error))
                }
                Err(error) if is_elsewhere(&error) => Ok(None),
                Err(error) => Err(Trouble::Failed(error).told(node)),
            }
        });
        looks.collect()
    }

    /// What is asked of sessions. The event comes first: a session that is deleted meanwhile has
    /// neither then.
    fn questions(&self, sessions: &[(SessionKey, Mark)]) -> Pipeline {
        let mut questions = Pipeline::new();
        for (key, known) in sessions {
            let names = self.names.session(key);
            if let Some(event) = known.event {
                let id = format!("{}-0", event.seq);
                let question = questions.cmd("XRANGE").arg(names.journal());
                question.arg(&id).arg(&id);
            }
            let question = questions.cmd("HMGET").arg(names.hash());
            question.arg(&["del", "ver", "seq", "al"]);
        }
        questions
    }

    /// The sessions of these partitions that something is known of, also by who follows them.
    fn known(&self, has: impl Fn(u16) -> bool) -> Vec<(SessionKey, Mark)> {
        let mut known: HashMap<SessionKey, Mark> = HashMap::new();
        for partition in (0..PARTITIONS).filter(|partition| has(*partition)) {
            for (member, mark) in self.marks(partition).all() {
                let key = session_of(member);
                known.extend(key.map(|key| (key, *mark)));
            }
        }
        for Followed { key, top } in self.hub.followed() {
            if top.last_seq > 0 && has(keys::partition(&key)) {
                let mark = Mark {
                    accepted_losses: top.accepted_losses,
                    seq: top.last_seq,
                    event: top.event,
                    ..Mark::default()
                };
                known.entry(key).or_default().raise(mark);
            }
        }
        known.into_iter().collect()
    }

    /// Whether it could be asked whose store it holds.
    async fn check_identity(&self, node: &Node, live: &Live) -> StoreResult<bool> {
        let mut question = redis::cmd("HGET");
        question.arg(self.names.meta()).arg("id");
        let found = match node.send_over(live.clone(), &question).await {
            Ok(id) => text(id),
            Err(Trouble::Failed(error)) if is_elsewhere(&error) => return Ok(false),
            Err(trouble) => return Err(trouble.told(node)),
        };
        if found.as_deref() == Some(&self.id) {
            return Ok(true);
        }
        let (server, opened) = (node.name(), &self.id);
        let found = found.unwrap_or_else(|| "none".to_owned());
        tracing::error!(
            server,
            opened,
            found,
            "the server does not hold the store that was opened: its sessions are lost, or it is \
             another server"
        );
        self.count(1);
        Ok(true)
    }

    /// What is left of the sessions is not gone on with. Gives those of which that is so; the others
    /// are on their way to another server, with their partitions `away`.
    async fn put_aside(
        &self,
        node: &Node,
        live: &Live,
        lost: Vec<Lost>,
        given: Option<i64>,
        away: &mut BTreeSet<u16>,
    ) -> StoreResult<Vec<Lost>> {
        let mut commands = Pipeline::new();
        commands.add_command(self.set_aside.load());
        for Lost {
            key, known, stored, ..
        } in &lost
        {
            if let Stored::At(_) = stored {
                let names = self.names.session(key);
                let keys = names.for_setting_aside();
                let call = self.set_aside.call(&keys).arg(&names.member);
                // It may be accepted just now.
                let call = call.arg(known.accepted_losses);
                let call = match given {
                    Some(now) => call.arg(now),
                    None => call,
                };
                commands.add_command(call.cmd);
            }
        }
        let done = node.send_each_over(live.clone(), commands).await;
        // The first answer is that of the script, which is known now.
        let mut done = done
            .map_err(|trouble| trouble.told(node))?
            .into_iter()
            .skip(1);
        let (mut settled, mut failure) = (Vec::new(), None);
        for mut it in lost {
            let is_left = matches!(it.stored, Stored::At(_));
            let answer = is_left.then(|| done.next()).flatten();
            match answer.map(|answer| answer.map(set_aside)) {
                Some(Ok(Some(1))) => aside::tell(&it.key, Quarantine::WritesLost),
                Some(Ok(Some(-1))) => it.accept(),
                Some(Err(error)) if is_elsewhere(&error) => {
                    away.insert(keys::partition(&it.key));
                    continue;
                }
                Some(Err(error)) => failure = Some(error),
                // Somebody else was faster, and has told.
                Some(Ok(_)) | None => {}
            }
            settled.push(it);
        }
        match failure {
            Some(error) => Err(Trouble::Failed(error).told(node)),
            None => Ok(settled),
        }
    }

    fn tell(&self, node: &Node, lost: &[Lost]) {
        let server = node.name();
        for Lost {
            key,
            known,
            stored,
            loss,
        } in lost.iter().take(NAMED)
        {
            let session = format!("{}/{}", key.namespace(), key.session());
            let (version, seq, left) = match stored {
                Stored::At(mark) if known.is_deleted => (
                    mark.version,
                    mark.seq,
                    "its deletion is lost; it is set aside",
                ),
                Stored::At(mark) => (mark.version, mark.seq, loss.left()),
                Stored::Nothing | Stored::Deleted => (0, 0, "nothing is left of it"),
            };
            tracing::error!(
                server,
                session,
                known_version = known.version,
                known_seq = known.seq,
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
        self.forget_lost(lost);
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
        self.forget_lost(lost);
    }

    /// Who follows is told, and nobody is told twice.
    fn forget_lost(&self, lost: &[Lost]) {
        for Lost {
            key, stored, loss, ..
        } in lost
        {
            self.forget(keys::partition(key), &keys::member(key));
            let last_seq = match stored {
                Stored::At(mark) => mark.seq,
                Stored::Nothing | Stored::Deleted => 0,
            };
            match loss {
                Loss::Behind => self.hub.lost(key, last_seq, last_seq),
                // Others before it may be others, too.
                Loss::Overwritten { seq } => self.hub.lost(key, seq.saturating_sub(1), 0),
            }
        }
    }

    fn count(&self, losses: u64) {
        counter!(metrics::LOST_WRITES, "seen_by" => "store").increment(losses);
        self.losses.send_modify(|known| *known += losses);
    }
}

/// What the script of that name answers for a session, if it did not refuse.
fn set_aside(answer: Value) -> Option<i64> {
    let words = Reply::new(answer).and_then(|mut words| Ok((words.text()?, words.int()?)));
    words
        .ok()
        .filter(|(word, _)| word == "ok")
        .map(|(_, new)| new)
}

//! Whether a server has what was answered.

use super::loss::{Lost, loss};
use super::stored::{Stored, answer};
use super::{Mark, Witness};
use crate::fingerprint::Fingerprint;
use crate::hub::Followed;
use crate::port::{SessionKey, StoreResult};
use crate::redis::failure::{Effect, is_elsewhere, odd};
use crate::redis::keys::{self, PARTITIONS, session_of};
use crate::redis::node::{Live, Node, Trouble};
use redis::Pipeline;
use std::collections::{BTreeSet, HashMap};

/// Sessions that are asked about at once.
const AT_ONCE: usize = 256;

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
    /// It lacks something, which was told, and the server takes no writes, so that it could not be set
    /// aside.
    Lost,
    /// It was not the server's.
    NotHere,
}

impl Checked {
    fn new(has: impl Fn(u16) -> bool, away: &BTreeSet<u16>, refused: &BTreeSet<u16>) -> Self {
        let look = |partition| match has(partition) {
            false => Look::NotHere,
            true if away.contains(&partition) => Look::InVain,
            true if refused.contains(&partition) => Look::Lost,
            true => Look::Taken,
        };
        Self {
            looks: (0..PARTITIONS).map(look).collect(),
        }
    }

    /// Whether that was all that the server has, and nothing is left to be done.
    pub(in crate::redis) fn is_whole(&self) -> bool {
        let is_open = |look| matches!(look, &Look::InVain | &Look::Lost);
        !self.looks.iter().any(is_open)
    }

    pub(in crate::redis) fn of(&self, partition: u16) -> Look {
        self.looks[usize::from(partition % PARTITIONS)]
    }
}

/// What a server has of a session, and the event in the place of the last that is known.
type Found = (Stored, Option<Fingerprint>);

impl Witness {
    /// Holds what a server has against what was answered of its partitions, and quarantines what has
    /// lost something. `given` is the time that scripts are given, if they are given one. `away` is
    /// a partition that is on its way to another server. What is, or cannot be quarantined, keeps no
    /// other partition waiting.
    pub(in crate::redis) async fn check(
        &self,
        node: &Node,
        live: &Live,
        has: impl Fn(u16) -> bool,
        away: Option<u16>,
        given: Option<i64>,
    ) -> StoreResult<Checked> {
        let mut away: BTreeSet<_> = away.into_iter().collect();
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
                        refusal: None,
                    });
                }
            }
        }
        self.forget_told(
            |partition| has(partition) && !away.contains(&partition),
            &lost,
        );
        let settled = self.settle(node, live, lost, given).await?;
        away.extend(settled.away);
        Ok(Checked::new(has, &away, &settled.refused))
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
            question.arg(&["del", "ver", "seq", "al", "cr"]);
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
        let told = self.told();
        let told = told.iter().filter(|(key, _)| has(keys::partition(key)));
        known.extend(told.map(|(key, mark)| (key.clone(), *mark)));
        known.into_iter().collect()
    }
}

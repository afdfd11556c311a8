//! What the servers of a store say of their settings: those that take writes, and those that may
//! come to, because a failover makes a master of a replica.

use super::address::Endpoint;
use super::ask::Answered;
use super::clocks::{Apart, Reading, apart};
use super::durability::Durability;
use super::keys::Names;
use super::layout::{Layout, Plan};
use super::node::Node;
use super::rights::closed_channels;
use super::settings::Settings;
use crate::port::{StoreError, StoreResult};
use futures::future::{join, join_all};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Replicas that have not answered by then are not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a server said.
pub(super) struct Said {
    pub(super) server: String,
    /// It takes no writes now, and may some day.
    pub(super) is_replica: bool,
    pub(super) settings: StoreResult<Settings>,
}

/// What all servers said.
pub(super) struct Survey {
    pub(super) said: Vec<Said>,
    /// Whether sentinels or the cluster told which replicas there are.
    are_replicas_told: bool,
    /// Those that take writes and do not agree on the time.
    pub(super) apart: Option<Apart>,
}

impl Survey {
    /// What keeps servers from their work: those that have to do it, now. Their clocks may differ by
    /// so much.
    pub(super) fn outages(&self, allowed_ms: i64) -> Vec<String> {
        let masters = self.said.iter().filter(|it| !it.is_replica);
        let outages = masters.filter_map(|said| match &said.settings {
            Err(error) => Some(error.to_string()),
            Ok(settings) => {
                let outage = settings.outage?;
                Some(format!("{} takes no writes: {outage}", said.server))
            }
        });
        outages.chain(self.apart(allowed_ms)).collect()
    }

    /// The clocks that differ by more than that.
    pub(super) fn apart(&self, allowed_ms: i64) -> Option<String> {
        let apart = self.apart.as_ref();
        let apart = apart.filter(|apart| apart.by_ms > allowed_ms);
        apart.map(Apart::to_string)
    }
}

/// Asks all servers, and the replicas that are known to masters, sentinels or the cluster.
pub(super) async fn survey(plan: &Plan, layout: &Layout, names: &Names) -> Survey {
    let masters = layout.nodes().iter().cloned();
    let masters = masters.map(|node| ask_master(node, layout, names));
    let (masters, apart) = join(join_all(masters), clocks_apart(layout)).await;
    let known = plan.replicas(layout.nodes()).await;
    if let Err(error) = &known {
        tracing::debug!(%error, "where replicas are is not told");
    }
    let are_replicas_told = known.is_ok();
    let known = known.unwrap_or_default();
    let is_cluster = plan.is_cluster();
    let replicas = replicas(layout, &masters, known).into_iter();
    let replicas = replicas.map(|endpoint| ask_replica(endpoint, is_cluster));
    let replicas = join_all(replicas).await;
    let said = masters.into_iter().chain(replicas.into_iter().flatten());
    Survey {
        said: said.collect(),
        are_replicas_told,
        apart,
    }
}

/// The masters whose clocks are furthest apart, if any are.
async fn clocks_apart(layout: &Layout) -> Option<Apart> {
    let began = Instant::now();
    let asked = layout.nodes().iter().map(|node| async move {
        let asked = began.elapsed();
        let value = node.send(&redis::cmd("TIME")).await.ok()?;
        let answered = Answered {
            node: node.clone(),
            value,
            asked,
            answered: began.elapsed(),
        };
        Reading::of(answered).ok()
    });
    let readings: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    apart(&readings)
}

/// Those that masters told of, and others that are known, each once.
fn replicas(layout: &Layout, masters: &[Said], known: Vec<Endpoint>) -> Vec<Endpoint> {
    let mut replicas: BTreeMap<String, Endpoint> = BTreeMap::new();
    for (node, said) in layout.nodes().iter().zip(masters) {
        let places = said.settings.iter().flat_map(|it| &it.replicas_at);
        let told = places.map(|(host, port)| node.endpoint.at(host, *port));
        replicas.extend(told.map(|it| (it.place(), it)));
    }
    replicas.extend(known.into_iter().map(|it| (it.place(), it)));
    for node in layout.nodes() {
        replicas.remove(&node.endpoint.place());
    }
    replicas.into_values().collect()
}

async fn ask_master(node: Arc<Node>, layout: &Layout, names: &Names) -> Said {
    let mut settings = Settings::of(&node).await;
    if let Ok(settings) = &mut settings {
        settings.closed_channels = closed_channels(&node, layout, names).await;
        if settings.listens_to_others() && !node.endpoint.may_be_exposed() {
            settings.lets_everybody_in = lets_everybody_in(&node).await;
        }
    }
    Said {
        server: node.name(),
        is_replica: false,
        settings,
    }
}

/// Whether a server answers whoever has no password.
async fn lets_everybody_in(node: &Node) -> bool {
    let Ok(anybody) = Node::new(node.endpoint.of_anybody()).map(Arc::new) else {
        return false;
    };
    let ping = redis::cmd("PING");
    let answered = tokio::time::timeout(PATIENCE, anybody.send(&ping)).await;
    answered.is_ok_and(|answer| answer.is_ok())
}

/// `None` if it is never to take over.
async fn ask_replica(endpoint: Endpoint, is_cluster: bool) -> Option<Said> {
    let server = endpoint.name();
    let settings = match Node::new(endpoint).map(Arc::new) {
        Ok(node) => {
            let late = |_| StoreError::unavailable("it did not answer in time");
            let asked = tokio::time::timeout(PATIENCE, Settings::of(&node)).await;
            asked.map_err(late).flatten()
        }
        Err(error) => Err(StoreError::unavailable(error)),
    };
    let stays = settings
        .as_ref()
        .is_ok_and(|it| it.stays_replica(is_cluster));
    (!stays).then_some(Said {
        server,
        is_replica: true,
        settings,
    })
}

/// What is known of the servers, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Picture(BTreeMap<String, Known>);

/// What is known of a server, and what somebody was told of it.
#[derive(Debug, Clone, Default)]
struct Known {
    is_replica: bool,
    wrong: Vec<String>,
    /// It is a replica that cannot be checked.
    is_unclear: bool,
    /// It is a master that may lose something although it is as it must be.
    may_lose: bool,
}

/// Not everybody answered who has to: a picture is to be taken again soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InPart;

impl Picture {
    /// Takes in what the servers said. Of one that did not answer what was known holds: it may still
    /// be as it was, and whoever needs it is told by its own calls. One that is not spoken of any more
    /// may have been replaced by another that has not answered yet: what was known of it holds until
    /// that is known.
    pub(super) fn take_in(&mut self, survey: Survey) -> Result<(), InPart> {
        let Survey {
            said,
            are_replicas_told,
            apart: _,
        } = survey;
        let do_masters_answer = said.iter().all(|it| it.is_replica || it.settings.is_ok());
        let mut before = std::mem::take(&mut self.0);
        for said in said {
            let known = before.remove(&said.server).unwrap_or_default();
            self.0.insert(said.server.clone(), known.heard(said));
        }
        let may_be_there = |known: &Known| {
            let is_told = are_replicas_told || !known.is_replica;
            !(do_masters_answer && is_told)
        };
        self.0
            .extend(before.into_iter().filter(|(_, known)| may_be_there(known)));
        match do_masters_answer && are_replicas_told {
            true => Ok(()),
            false => Err(InPart),
        }
    }

    /// What follows for the store.
    pub(super) fn durability(&self) -> Durability {
        let wrong = self.0.values().flat_map(|known| &known.wrong);
        Durability::of(wrong.cloned().collect())
    }
}

impl Known {
    /// What is known after that, and warns of what is no reason to refuse.
    fn heard(self, said: Said) -> Self {
        let Said {
            server,
            is_replica,
            settings,
        } = said;
        let mut known = Self { is_replica, ..self };
        let unknown = match settings {
            Ok(settings) if is_replica => {
                let findings = settings.findings();
                let wrong = findings.wrong.into_iter();
                let wrong = wrong.map(|it| format!("{server}, a replica: {it}"));
                known.wrong = wrong.collect();
                known.may_lose = false;
                findings.unknown
            }
            Ok(settings) => {
                let wrong = settings.findings().all().into_iter();
                known.wrong = wrong.map(|it| format!("{server}: {it}")).collect();
                known.may_lose = may_lose(&server, &settings, self.may_lose);
                Vec::new()
            }
            Err(error) => vec![error.to_string()],
        };
        known.is_unclear = is_replica && !unknown.is_empty();
        if known.is_unclear && !self.is_unclear {
            let why = unknown.join("; ");
            tracing::warn!(
                server,
                why,
                "whether a replica keeps what it gets cannot be checked: if it takes over, what was \
                 answered may be lost"
            );
        }
        known
    }
}

/// Whether a master may lose something in a failover; tells of it unless that was known.
fn may_lose(server: &str, settings: &Settings, was_known: bool) -> bool {
    let may_lose = settings.may_lose_in_failover();
    if may_lose && !was_known {
        tracing::warn!(
            server,
            "it has replicas and min-replicas-to-write is 0: a failover may lose what was answered \
             last, which is told then; 1 or more makes that rarer, and refuses writes when no replica \
             is near"
        );
    }
    // Replicas come and go, and what was told of stays true.
    may_lose || (was_known && settings.replicas == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::settings::NEEDED;

    fn settings(appendonly: &str) -> StoreResult<Settings> {
        let values = NEEDED.iter().map(|(name, value, _)| match *name {
            "appendonly" => ("appendonly".to_owned(), appendonly.to_owned()),
            name => (name.to_owned(), (*value).to_owned()),
        });
        Ok(Settings {
            version: "7.0.15".to_owned(),
            values: Some(values.collect()),
            ..Settings::default()
        })
    }

    fn said(server: &str, is_replica: bool, settings: StoreResult<Settings>) -> Said {
        Said {
            server: server.to_owned(),
            is_replica,
            settings,
        }
    }

    fn all(said: Vec<Said>) -> Survey {
        Survey {
            said,
            are_replicas_told: true,
            apart: None,
        }
    }

    fn away() -> StoreResult<Settings> {
        Err(StoreError::unavailable("away"))
    }

    fn reasons(picture: &Picture) -> Vec<String> {
        match picture.durability() {
            Durability::Durable => Vec::new(),
            Durability::Degraded { reasons } => reasons,
        }
    }

    #[test]
    fn a_replica_that_keeps_nothing_is_named() {
        let mut picture = Picture::default();
        let whole = picture.take_in(all(vec![
            said("one", false, settings("yes")),
            said("two", true, settings("no")),
        ]));
        assert_eq!(whole, Ok(()));
        let reasons = reasons(&picture);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let named = reasons[0].starts_with("two, a replica: appendonly is no");
        assert!(named, "{reasons:?}");
    }

    #[test]
    fn what_a_replica_does_not_tell_is_no_reason_and_what_a_master_does_not_is_one() {
        let mut picture = Picture::default();
        let whole = picture.take_in(all(vec![
            said("one", false, settings("yes")),
            said("two", true, Ok(Settings::default())),
            said("three", true, away()),
        ]));
        assert_eq!(whole, Ok(()));
        assert_eq!(picture.durability(), Durability::Durable);
        let unclear = |picture: &Picture| picture.0.values().filter(|it| it.is_unclear).count();
        assert_eq!(unclear(&picture), 2);
        let silent = said("one", false, Ok(Settings::default()));
        picture.take_in(all(vec![silent])).unwrap();
        assert_eq!((reasons(&picture).len(), unclear(&picture)), (2, 0));
    }

    #[test]
    fn what_was_known_of_a_server_holds_while_it_does_not_answer() {
        let mut picture = Picture::default();
        let first = all(vec![
            said("one", false, settings("no")),
            said("two", true, settings("no")),
        ]);
        picture.take_in(first).unwrap();
        let gone = all(vec![said("one", false, away()), said("two", true, away())]);
        assert_eq!(picture.take_in(gone), Err(InPart));
        assert_eq!(reasons(&picture).len(), 2);
        // One that is not there any more does not count.
        let one = all(vec![said("one", false, settings("yes"))]);
        picture.take_in(one).unwrap();
        assert_eq!(picture.durability(), Durability::Durable);
    }

    #[test]
    fn what_was_known_holds_until_whoever_takes_over_has_answered() {
        let mut picture = Picture::default();
        let first = all(vec![said("one", false, settings("no"))]);
        picture.take_in(first).unwrap();
        let next = || said("two", false, away());
        assert_eq!(picture.take_in(all(vec![next()])), Err(InPart));
        assert_eq!(reasons(&picture).len(), 1);
        let other = said("three", false, settings("yes"));
        assert_eq!(picture.take_in(all(vec![next(), other])), Err(InPart));
        assert_eq!(reasons(&picture).len(), 1);
        let there = all(vec![said("two", false, settings("yes"))]);
        assert_eq!(picture.take_in(there), Ok(()));
        assert_eq!(picture.durability(), Durability::Durable);
    }

    #[test]
    fn replicas_that_nobody_tells_of_are_not_taken_to_be_gone() {
        let mut picture = Picture::default();
        let master = || said("one", false, settings("yes"));
        let before = all(vec![master(), said("two", true, settings("no"))]);
        picture.take_in(before).unwrap();
        let untold = Survey {
            are_replicas_told: false,
            ..all(vec![master()])
        };
        assert_eq!(picture.take_in(untold), Err(InPart));
        assert_eq!(reasons(&picture).len(), 1);
        assert_eq!(picture.take_in(all(vec![master()])), Ok(()));
        assert_eq!(picture.durability(), Durability::Durable);
    }
}

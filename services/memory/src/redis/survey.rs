//! What the servers of a store say of their settings: those that take writes, and those that may
//! come to, because a failover makes a master of a replica.

use super::address::Endpoint;
use super::layout::{Layout, Plan};
use super::node::Node;
use super::settings::{Durability, Settings};
use crate::port::{StoreError, StoreResult};
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Replicas that have not answered by then are not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a server said.
pub(super) struct Said {
    pub(super) server: String,
    /// It takes no writes now, and may some day.
    pub(super) is_replica: bool,
    pub(super) settings: StoreResult<Settings>,
}

/// Asks all servers, and the replicas that are known to masters, sentinels or the cluster.
pub(super) async fn survey(plan: &Plan, layout: &Layout) -> Vec<Said> {
    let masters = layout.nodes().iter().cloned().map(ask_master);
    let masters = join_all(masters).await;
    let known = plan.replicas(layout.nodes()).await;
    let is_cluster = plan.is_cluster();
    let replicas = replicas(layout, &masters, known).into_iter();
    let replicas = replicas.map(|endpoint| ask_replica(endpoint, is_cluster));
    let replicas = join_all(replicas).await;
    masters
        .into_iter()
        .chain(replicas.into_iter().flatten())
        .collect()
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

async fn ask_master(node: Arc<Node>) -> Said {
    Said {
        server: node.name(),
        is_replica: false,
        settings: Settings::of(&node).await,
    }
}

/// `None` if it is never to take over.
async fn ask_replica(endpoint: Endpoint, is_cluster: bool) -> Option<Said> {
    let server = endpoint.name();
    let settings = match Node::new(endpoint) {
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

/// What is known to be wrong with the servers, and what is not known.
#[derive(Debug, Clone, Default)]
pub(super) struct Picture {
    /// What is wrong, by server.
    wrong: BTreeMap<String, Vec<String>>,
    /// Replicas of which somebody was told that they cannot be checked.
    unclear: BTreeSet<String>,
}

impl Picture {
    /// Takes in what the servers said. Of one that did not answer what was known holds: it may still
    /// be as it was, and whoever needs it is told by its own calls.
    pub(super) fn take_in(&mut self, said: Vec<Said>) {
        let (mut wrong, mut unclear) = (BTreeMap::new(), BTreeSet::new());
        for Said {
            server,
            is_replica,
            settings,
        } in said
        {
            let (found, unknown) = match settings {
                Ok(settings) if is_replica => {
                    let findings = settings.findings();
                    let found = findings.wrong.into_iter();
                    let found = found.map(|it| format!("{server}, a replica: {it}"));
                    (found.collect(), findings.unknown)
                }
                Ok(settings) => {
                    let found = settings.findings().all().into_iter();
                    let found = found.map(|it| format!("{server}: {it}"));
                    (found.collect(), Vec::new())
                }
                Err(error) => {
                    let known = self.wrong.remove(&server).unwrap_or_default();
                    (known, vec![error.to_string()])
                }
            };
            if is_replica && !unknown.is_empty() {
                if !self.unclear.contains(&server) {
                    let why = unknown.join("; ");
                    tracing::warn!(
                        server,
                        why,
                        "whether a replica keeps what it gets cannot be checked: if it takes over, \
                         what was answered may be lost"
                    );
                }
                unclear.insert(server.clone());
            }
            if !found.is_empty() {
                wrong.insert(server, found);
            }
        }
        *self = Self { wrong, unclear };
    }

    /// What follows for the store.
    pub(super) fn durability(&self) -> Durability {
        Durability::of(self.wrong.values().flatten().cloned().collect())
    }
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

    fn reasons(picture: &Picture) -> Vec<String> {
        match picture.durability() {
            Durability::Durable => Vec::new(),
            Durability::Degraded { reasons } => reasons,
        }
    }

    #[test]
    fn a_replica_that_keeps_nothing_is_named() {
        let mut picture = Picture::default();
        picture.take_in(vec![
            said("one", false, settings("yes")),
            said("two", true, settings("no")),
        ]);
        let reasons = reasons(&picture);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let named = reasons[0].starts_with("two, a replica: appendonly is no");
        assert!(named, "{reasons:?}");
    }

    #[test]
    fn what_a_replica_does_not_tell_is_no_reason_and_what_a_master_does_not_is_one() {
        let mut picture = Picture::default();
        picture.take_in(vec![
            said("one", false, settings("yes")),
            said("two", true, Ok(Settings::default())),
            said("three", true, Err(StoreError::unavailable("away"))),
        ]);
        assert_eq!(picture.durability(), Durability::Durable);
        assert_eq!(picture.unclear.len(), 2);
        picture.take_in(vec![said("one", false, Ok(Settings::default()))]);
        assert_eq!(reasons(&picture).len(), 2);
        assert_eq!(picture.unclear.len(), 0);
    }

    #[test]
    fn what_was_known_of_a_server_holds_while_it_does_not_answer() {
        let away = || Err(StoreError::unavailable("away"));
        let mut picture = Picture::default();
        picture.take_in(vec![
            said("one", false, settings("no")),
            said("two", true, settings("no")),
        ]);
        picture.take_in(vec![said("one", false, away()), said("two", true, away())]);
        assert_eq!(reasons(&picture).len(), 2);
        // One that is not there any more does not count.
        picture.take_in(vec![said("one", false, settings("yes"))]);
        assert_eq!(picture.durability(), Durability::Durable);
    }
}

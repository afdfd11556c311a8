//! Sentinels: they watch over a master and its replicas, and know which is the master.

use super::{first, node_at};
use crate::port::{StoreError, StoreResult};
use crate::redis::address::Endpoint;
use crate::redis::node::Node;
use crate::redis::script::Reply;
use std::sync::Arc;

/// Asks the sentinels for the master, and the master whether it is one.
pub(super) async fn find(
    sentinels: &[Arc<Node>],
    master: &str,
    template: &Endpoint,
    known: &[Arc<Node>],
) -> StoreResult<Arc<Node>> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let (host, port) = first(sentinels.iter().cloned(), &question, |_, answer| {
        let mut address = Reply::new(answer).ok()?;
        let host = address.text().ok()?;
        Some((host, u16::try_from(address.int().ok()?).ok()?))
    })
    .await?;
    let node = node_at(template.at(&host, port), known)?;
    let role = node.send(&redis::cmd("ROLE")).await;
    let role = role.map_err(|trouble| trouble.told(&node))?;
    let role = Reply::new(role).and_then(|mut role| role.text());
    match role.as_deref() {
        Ok("master") => Ok(node),
        // Sentinels take a while to agree.
        _ => Err(StoreError::unavailable(format!(
            "{} is not a master any more",
            node.name()
        ))),
    }
}

/// Asks the sentinels for the master's replicas.
pub(super) async fn replicas(
    sentinels: &[Arc<Node>],
    master: &str,
    template: &Endpoint,
) -> StoreResult<Vec<Endpoint>> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("REPLICAS").arg(master);
    let places = first(sentinels.iter().cloned(), &question, |_, answer| {
        let mut replicas = Reply::new(answer).ok()?;
        let mut places = Vec::with_capacity(replicas.len());
        while replicas.len() > 0 {
            places.extend(place(replicas.array().ok()?));
        }
        Some(places)
    })
    .await?;
    let places = places.into_iter();
    Ok(places
        .map(|(host, port)| template.at(&host, port))
        .collect())
}

/// Where a replica is, by what a sentinel says of it: names and values in turn.
fn place(mut fields: Reply) -> Option<(String, u16)> {
    let (mut host, mut port) = (None, None);
    while fields.len() > 0 {
        let (name, value) = (fields.text().ok()?, fields.text().ok()?);
        match name.as_str() {
            "ip" => host = Some(value),
            "port" => port = value.parse().ok(),
            _ => {}
        }
    }
    host.zip(port)
}

//! Sentinels: they watch over a master and its replicas, and know which is the master.

use super::{first, node_at};
use crate::port::{StoreError, StoreResult};
use crate::redis::address::Endpoint;
use crate::redis::node::Node;
use crate::redis::script::Reply;
use redis::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Other sentinels that are known at most: in the course of time each may get another address.
const MOST: usize = 16;

/// Sentinels, and the master that they watch over.
#[derive(Debug)]
pub(in crate::redis) struct Sentinels {
    /// Those that are configured; never none.
    named: Vec<Arc<Node>>,
    /// Others that they have told of: those that are configured may all be gone when it matters.
    others: Mutex<Vec<Arc<Node>>>,
    /// The name by which they know the master.
    master: String,
    /// How the master is spoken to, wherever it is.
    template: Endpoint,
}

impl Sentinels {
    pub(super) fn new(named: Vec<Arc<Node>>, master: &str, template: Endpoint) -> Self {
        Self {
            named,
            others: Mutex::default(),
            master: master.to_owned(),
            template,
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Node>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        self.named.iter().chain(&*others).cloned().collect()
    }

    /// Asks the sentinels for the master, and the master whether it is one.
    pub(super) async fn find(&self, known: &[Arc<Node>]) -> StoreResult<Arc<Node>> {
        let asked = self.ask("GET-MASTER-ADDR-BY-NAME", |answer| {
            let mut address = Reply::new(answer).ok()?;
            let host = address.text().ok()?;
            Some((host, u16::try_from(address.int().ok()?).ok()?))
        });
        let (host, port) = asked.await?;
        let node = node_at(self.template.at(&host, port), known)?;
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

    /// Asks the sentinels for the master's replicas, and for each other.
    pub(super) async fn replicas(&self) -> StoreResult<Vec<Endpoint>> {
        match self.ask("SENTINELS", places).await {
            Ok(told) => self.learn(told),
            // Their user may not be allowed to ask. Those that are configured are known.
            Err(error) => tracing::debug!(%error, "what other sentinels there are is not told"),
        }
        let replicas = self.ask("REPLICAS", places).await?.into_iter();
        let replicas = replicas.map(|(host, port)| self.template.at(&host, port));
        Ok(replicas.collect())
    }

    /// No sentinel tells of itself, and one that has just begun knows of none: whoever was told of
    /// once stays known, as long as there are not too many.
    fn learn(&self, told: Vec<(String, u16)>) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for (host, port) in told {
            let endpoint = self.named[0].endpoint.at(&host, port);
            let is_same = |node: &Arc<Node>| node.endpoint.place() == endpoint.place();
            if self.named.iter().any(is_same) {
                continue;
            }
            match others.iter().position(is_same) {
                Some(place) => others[..=place].rotate_right(1),
                None => {
                    let node = Node::new(endpoint).ok().map(Arc::new);
                    others.splice(0..0, node);
                }
            }
        }
        // Those that were told of last are in front.
        others.truncate(MOST);
    }

    async fn ask<T: Send>(
        &self,
        what: &str,
        parse: impl Fn(Value) -> Option<T> + Sync,
    ) -> StoreResult<T> {
        let mut question = redis::cmd("SENTINEL");
        question.arg(what).arg(&self.master);
        let about = format!("a master called {}", self.master);
        first(self.all(), &question, &about, |_, answer| parse(answer)).await
    }
}

fn places(answer: Value) -> Option<Vec<(String, u16)>> {
    let mut servers = Reply::new(answer).ok()?;
    let mut places = Vec::with_capacity(servers.len());
    while servers.len() > 0 {
        places.extend(place(servers.array().ok()?));
    }
    Some(places)
}

/// Where a server is, by what a sentinel says of it: names and values in turn.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::address::TlsFiles;

    fn places(sentinels: &Sentinels) -> Vec<String> {
        let all = sentinels.all().into_iter();
        all.map(|node| node.endpoint.place()).collect()
    }

    #[test]
    fn whoever_was_told_of_stays_known_though_no_sentinel_tells_of_itself() {
        let endpoint = |url: &str| Endpoint::parse(&url.into(), TlsFiles::default()).unwrap();
        let named = Node::new(endpoint("redis://a:1")).unwrap();
        let sentinels = Sentinels::new(vec![Arc::new(named)], "m", endpoint("redis://m:1"));
        let learn = |told: &[&str]| {
            sentinels.learn(told.iter().map(|host| ((*host).to_owned(), 1)).collect());
            places(&sentinels)
        };
        assert_eq!(learn(&["b", "c"]), ["a:1", "c:1", "b:1"]);
        let nodes = sentinels.all();
        assert_eq!(learn(&["a", "c"]), ["a:1", "c:1", "b:1"]);
        assert_eq!(learn(&["a", "b"]), ["a:1", "b:1", "c:1"]);
        assert_eq!(learn(&[]), ["a:1", "b:1", "c:1"]);
        assert!(
            sentinels
                .all()
                .iter()
                .all(|it| nodes.iter().any(|node| Arc::ptr_eq(it, node)))
        );
        let many: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let known = learn(&many);
        assert_eq!((known.len(), known[1].as_str()), (1 + MOST, "n39:1"));
    }
}

//! Which server has which partition.

mod cluster;
mod sentinel;

use super::address::Endpoint;
use super::keys::{Names, PARTITIONS};
use super::node::Node;
use crate::port::{StoreError, StoreResult};
use futures::FutureExt as _;
use futures::future::{BoxFuture, select_ok};
use redis::{Cmd, RedisError, Value};
use sentinel::Sentinels;
use std::sync::Arc;

/// How servers are found.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    /// There is one.
    Standalone(Arc<Node>),
    /// Sentinels know the master.
    Sentinel(Arc<Sentinels>),
    /// Each server of a cluster knows all.
    Cluster {
        seeds: Vec<Arc<Node>>,
        /// How all of them are spoken to.
        template: Box<Endpoint>,
        /// The slot of each partition.
        slots: Vec<u16>,
    },
}

impl Plan {
    pub(super) fn standalone(endpoint: Endpoint) -> Result<Self, RedisError> {
        Ok(Self::Standalone(Arc::new(Node::new(endpoint)?)))
    }

    pub(super) fn sentinel(
        sentinels: &[Endpoint],
        master: &str,
        template: Endpoint,
    ) -> Result<Self, RedisError> {
        let sentinels = Sentinels::new(nodes(sentinels)?, master, template);
        Ok(Self::Sentinel(Arc::new(sentinels)))
    }

    /// Partitions go by the names of their keys; `seeds` must not be empty.
    pub(super) fn cluster(seeds: &[Endpoint], names: &Names) -> Result<Self, RedisError> {
        let tags = (0..PARTITIONS).map(|number| names.partition(number).tag());
        Ok(Self::Cluster {
            template: Box::new(seeds[0].clone()),
            seeds: nodes(seeds)?,
            slots: tags.map(|tag| cluster::slot(tag.as_bytes())).collect(),
        })
    }

    /// Whether servers can change their parts.
    pub(super) fn can_change(&self) -> bool {
        !matches!(self, Self::Standalone(_))
    }

    /// Whether the servers are a cluster's.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }

    /// The replicas that sentinels or a cluster's servers know of.
    pub(super) async fn replicas(&self, known: &[Arc<Node>]) -> StoreResult<Vec<Endpoint>> {
        match self {
            Self::Standalone(_) => Ok(Vec::new()),
            Self::Sentinel(sentinels) => sentinels.replicas().await,
            Self::Cluster {
                seeds, template, ..
            } => cluster::replicas(seeds, template, known).await,
        }
    }

    /// Gives up the connections to those who know where servers are.
    pub(super) fn disconnect(&self) {
        let nodes = match self {
            Self::Standalone(node) => vec![node.clone()],
            Self::Sentinel(sentinels) => sentinels.all(),
            Self::Cluster { seeds, .. } => seeds.clone(),
        };
        nodes.iter().for_each(|node| node.disconnect());
    }

    /// Finds out where all is, keeping the connections to servers that are known.
    pub(super) async fn find(&self, known: &[Arc<Node>]) -> StoreResult<Layout> {
        match self {
            Self::Standalone(node) => Ok(Layout::single(node.clone())),
            Self::Sentinel(sentinels) => Ok(Layout::single(sentinels.find(known).await?)),
            Self::Cluster {
                seeds,
                template,
                slots,
            } => cluster::find(seeds, template, slots, known).await,
        }
    }
}

fn nodes(endpoints: &[Endpoint]) -> Result<Vec<Arc<Node>>, RedisError> {
    let nodes = endpoints.iter().cloned();
    nodes
        .map(|endpoint| Node::new(endpoint).map(Arc::new))
        .collect()
}

/// The servers at one time.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    nodes: Vec<Arc<Node>>,
    /// For each partition the place of its server among them.
    places: Vec<usize>,
}

impl Layout {
    /// All is at one server.
    fn single(node: Arc<Node>) -> Self {
        Self {
            nodes: vec![node],
            places: vec![0; usize::from(PARTITIONS)],
        }
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Whether each partition is at the same server, over the same connection.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut nodes = self.nodes.iter().zip(&other.nodes);
        self.places == other.places
            && self.nodes.len() == other.nodes.len()
            && nodes.all(|(one, two)| Arc::ptr_eq(one, two))
    }

    pub(super) fn node(&self, partition: u16) -> &Arc<Node> {
        &self.nodes[self.place(partition)]
    }

    /// One of the partitions that a server has.
    pub(super) fn partition_of(&self, node: &Arc<Node>) -> Option<u16> {
        (0..PARTITIONS).find(|it| Arc::ptr_eq(self.node(*it), node))
    }

    /// The place of a partition's server among all.
    pub(super) fn place(&self, partition: u16) -> usize {
        self.places[usize::from(partition % PARTITIONS)]
    }
}

/// A server that is known already, or a new one.
fn node_at(endpoint: Endpoint, known: &[Arc<Node>]) -> StoreResult<Arc<Node>> {
    let place = endpoint.place();
    let same = known.iter().find(|node| node.endpoint.place() == place);
    match same {
        Some(node) => Ok(node.clone()),
        None => Ok(Arc::new(
            Node::new(endpoint).map_err(StoreError::unavailable)?,
        )),
    }
}

/// What the first of several servers answers that makes sense; `what` is what it is about.
async fn first<T: Send>(
    nodes: impl IntoIterator<Item = Arc<Node>>,
    question: &Cmd,
    what: &str,
    parse: impl Fn(&Node, Value) -> Option<T> + Sync,
) -> StoreResult<T> {
    let parse = &parse;
    let asked = nodes.into_iter().map(|node| -> BoxFuture<'_, _> {
        async move {
            let answer = node
                .send(question)
                .await
                .map_err(|trouble| trouble.told(&node))?;
            let odd = || StoreError::unavailable(format!("{} does not know {what}", node.name()));
            parse(&node, answer).ok_or_else(odd)
        }
        .boxed()
    });
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return Err(StoreError::unavailable("there is no server to ask"));
    }
    Ok(select_ok(asked).await?.0)
}

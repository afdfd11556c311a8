//! What the servers let the store's user do, tested with commands that change nothing.

use super::keys::Names;
use super::layout::Layout;
use super::node::{Node, Trouble};
use crate::port::StoreError;
use std::sync::Arc;

/// Why the user may not write, at each server where it may not.
pub(super) async fn locked_out(layout: &Layout, names: &Names) -> Vec<String> {
    let tested = layout.nodes().iter().map(|node| async move {
        let queue = names.partition(layout.partition_of(node)?).due();
        let mut remove_nothing = redis::cmd("ZREM");
        remove_nothing.arg(queue).arg("");
        match node.send(&remove_nothing).await {
            Err(trouble @ Trouble::Failed(_)) => Some(reason(trouble.told(node))),
            Ok(_) | Err(_) => None,
        }
    });
    let found = futures::future::join_all(tested).await;
    found.into_iter().flatten().collect()
}

/// What is in the way, without that it is the store that is unavailable.
fn reason(error: StoreError) -> String {
    match error {
        StoreError::Unavailable { reason } => reason,
        error => error.to_string(),
    }
}

/// The store's channels, as a pattern of Redis, if the user may not publish to them at a server.
///
/// The scripts lose their hints then, and are answered all the same: only a test shows it.
pub(super) async fn closed_channels(
    node: &Arc<Node>,
    layout: &Layout,
    names: &Names,
) -> Option<String> {
    let channel = names.partition(layout.partition_of(node)?).probe();
    let mut hint = redis::cmd("SPUBLISH");
    hint.arg(channel).arg("");
    match node.send(&hint).await {
        Err(Trouble::Failed(error)) if error.code() == Some("NOPERM") => Some(names.pattern()),
        Ok(_) | Err(_) => None,
    }
}

//! Whether the servers hold the store that was opened. Another store at the same address is not worked
//! on: what it has would be taken for lost writes, and processes with two ids share no channel.

use super::failure::is_elsewhere;
use super::keys::Names;
use super::node::{Live, Node, Trouble};
use crate::port::{StoreError, StoreResult};
use redis::Value;
use std::sync::OnceLock;

/// The id of the store that was opened, and why no server is asked any more once another was found.
pub(super) struct Identity {
    names: Names,
    id: String,
    refusal: OnceLock<StoreError>,
}

/// What the server of partition 0 answers.
pub(super) enum Answer {
    /// The partition is on its way to another server, or there.
    Elsewhere,
    /// The id that it has, if it has one.
    Id(Option<String>),
}

impl Identity {
    pub(super) fn new(names: Names, id: String) -> Self {
        Self {
            names,
            id,
            refusal: OnceLock::new(),
        }
    }

    /// # Errors
    /// Another store was found. That stays so until the store is opened again: nobody knows what was
    /// missed meanwhile.
    pub(super) fn check(&self) -> StoreResult<()> {
        self.refusal().map_or(Ok(()), Err)
    }

    /// Why no server is asked, if another store was found.
    pub(super) fn refusal(&self) -> Option<StoreError> {
        self.refusal.get().cloned()
    }

    /// Asks the server that has partition 0.
    pub(super) async fn ask(&self, node: &Node, live: &Live) -> StoreResult<Answer> {
        let mut question = redis::cmd("HGET");
        question.arg(self.names.meta()).arg("id");
        match node.send_over(live.clone(), &question).await {
            Ok(Value::BulkString(id)) => {
                let id = String::from_utf8_lossy(&id).into_owned();
                Ok(Answer::Id(Some(id)))
            }
            Ok(_) => Ok(Answer::Id(None)),
            Err(Trouble::Failed(error)) if is_elsewhere(&error) => Ok(Answer::Elsewhere),
            Err(trouble) => Err(trouble.told(node)),
        }
    }

    /// Whether the id is another than that of the store that was opened. From then on every call is
    /// refused. Says so only to the first caller.
    pub(super) fn refuse(&self, node: &Node, answer: &Answer) -> bool {
        let Answer::Id(found) = answer else {
            return false;
        };
        if found.as_deref() == Some(&self.id) {
            return false;
        }
        let (server, opened) = (node.name(), &self.id);
        let found = found.as_deref().unwrap_or("none");
        let refusal = StoreError::unavailable(format!(
            "{server} holds another store than the one that was opened (its id is {found}, and {opened} \
             was opened): restart this process to work with what is there"
        ));
        let is_first = self.refusal.set(refusal).is_ok();
        if is_first {
            tracing::error!(
                server,
                opened,
                found,
                "store unavailable until restart: the server holds another store than the one that was \
                 opened"
            );
        }
        is_first
    }
}

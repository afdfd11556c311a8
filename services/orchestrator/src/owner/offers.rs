//! Which models are offered the tools for knowledge.

use super::recall::Recall;
use super::{End, Outstanding, Owner};
use cairn_engine::event::AttemptRef;
use cairn_engine::outstanding::Work;
use cairn_engine::session::KNOWLEDGE_TOOLS;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The store may take so long to say whether there are pages.
const LONGEST: Duration = Duration::from_secs(5);

/// What an owner keeps for the tools for knowledge.
#[derive(Debug, Default)]
pub(super) struct OfKnowledge {
    /// Whether there was something to retrieve when an attempt began.
    there_is_some: BTreeMap<AttemptRef, bool>,
    /// Messages that requests do not have any more, once a model has asked for some.
    pub(super) recall: Arc<Recall>,
}

impl Owner {
    /// Notes, for each attempt that may begin, whether there is something to retrieve: the namespace has pages, or the
    /// context has a window or was compacted. The note stays, so that the tools of an attempt are the same in all its
    /// requests. Another owner makes its own note.
    pub(super) async fn note_offers(&mut self, outstanding: &Outstanding) -> Result<(), End> {
        let session = &self.session;
        self.knowledge
            .there_is_some
            .retain(|attempt, _| session.attempt(*attempt).is_some());
        let begins = outstanding.iter().filter_map(|work| match work {
            Work::RunStep(attempt) if self.may_begin(work) => Some(attempt),
            _ => None,
        });
        let is_new = |attempt: &AttemptRef| {
            !self.knowledge.there_is_some.contains_key(attempt) && !session.is_tool_step(*attempt)
        };
        let begins: Vec<_> = begins.filter(is_new).collect();
        let (lacking, others): (Vec<_>, Vec<_>) = begins
            .into_iter()
            .partition(|attempt| session.may_lack_messages(*attempt));
        self.knowledge
            .there_is_some
            .extend(lacking.into_iter().map(|attempt| (attempt, true)));
        if others.is_empty() {
            return Ok(());
        }
        let has_pages = self.has_pages().await?;
        self.knowledge
            .there_is_some
            .extend(others.into_iter().map(|attempt| (attempt, has_pages)));
        Ok(())
    }

    /// The tool is one for knowledge, and is not offered: there is nothing to retrieve, and neither the agent nor the
    /// turn names the tool.
    pub(super) fn hides(&self, attempt: AttemptRef, tool: &str) -> bool {
        KNOWLEDGE_TOOLS.contains(&tool)
            && !self.has_knowledge(attempt)
            && !self.session.names_tool(attempt, tool)
    }

    /// There was something to retrieve when the attempt began here.
    pub(super) fn has_knowledge(&self, attempt: AttemptRef) -> bool {
        self.knowledge
            .there_is_some
            .get(&attempt)
            .copied()
            .unwrap_or(false)
    }

    /// Whether the namespace has pages. If that is not known in time, the work begins without them.
    async fn has_pages(&mut self) -> Result<bool, End> {
        let (deps, key) = (self.deps.clone(), self.key.clone());
        let mut has_pages = false;
        let asked = async {
            let answer = deps.knowledge.has_pages(&deps.store, &key.namespace);
            match timeout(LONGEST, answer).await {
                Ok(Ok(has)) => has_pages = has,
                Ok(Err(error)) => {
                    tracing::warn!(session = %key, %error, "tools for knowledge not offered");
                }
                Err(_) => tracing::warn!(session = %key, "tools for knowledge not offered in time"),
            }
        };
        self.inbox.wait_for(Box::pin(asked)).await?;
        Ok(has_pages)
    }
}

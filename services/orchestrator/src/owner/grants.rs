//! What operators grant and revoke while attempts run.

use super::Owner;
use super::work::Executor;
use crate::dispatch::{Catalogue, PartOf, Use};
use cairn_engine::event::AttemptRef;
use cairn_engine::outstanding::Work;
use cairn_engine::pool::{Grant, ResourceTools};
use std::sync::Arc;

/// What an operator gave to the agent and the executor of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// None if nothing was granted to the agent, or revoked.
    agent: Option<Grant>,
    /// The tools that the executor may use.
    pub(super) tools: Arc<ResourceTools>,
}

impl Owner {
    /// What an attempt may call in an executor with these tools: its agent may have fewer, and a turn may name its
    /// tools.
    pub(super) fn catalogue_of(
        &self,
        attempt: AttemptRef,
        tools: &ResourceTools,
    ) -> Arc<Catalogue> {
        let dispatch = &self.deps.dispatch;
        let (catalogue, grants) = (dispatch.catalogue(), dispatch.grants(&self.key.namespace));
        let of = PartOf::run(&self.session, attempt.run);
        let of = of.granted(&grants).in_executor(tools);
        let of = of.with_knowledge(self.has_knowledge(attempt));
        let offers = |tool: &str| self.session.offers(attempt, tool, &grants);
        let is_offered = |tool: &str| offers(tool) && !self.hides(attempt, tool);
        match self.session.turn(attempt) {
            None => catalogue.part(of, Use::Step, is_offered),
            Some(turn) if turn.options.tools.is_none() => catalogue.part(of, Use::Turn, is_offered),
            Some(_) => Arc::new(catalogue.only(of, is_offered)),
        }
    }

    /// What an operator gave to the agent of an attempt, and to its executor.
    pub(super) fn given(&self, attempt: AttemptRef, tools: &Arc<ResourceTools>) -> Given {
        let agent = self.session.agent_name(attempt.run);
        let grants = self.deps.dispatch.grants(&self.key.namespace);
        Given {
            agent: grants.0.get(agent).cloned(),
            tools: tools.clone(),
        }
    }

    /// Replaces the tools of running attempts whose agents or executors got other tools. Calls of tools that they lost
    /// are refused from now on, and the next request of each model has the new tools.
    pub(super) fn follow_grants(&mut self) {
        let version = self.deps.dispatch.pool_version();
        if std::mem::replace(&mut self.pool_version, version) == version {
            return;
        }
        let changed: Vec<_> = self
            .active
            .iter()
            .filter_map(|(work, active)| match (work, &active.executor) {
                (Work::RunStep(attempt), Some(executor)) => {
                    Some((*attempt, self.given_now(*attempt, executor)?))
                }
                _ => None,
            })
            .collect();
        for (attempt, given) in changed {
            let catalogue = self.catalogue_of(attempt, &given.tools);
            let active = self.active.get_mut(&Work::RunStep(attempt));
            if let Some(executor) = active.and_then(|active| active.executor.as_mut()) {
                executor.give(given, catalogue);
            }
        }
    }

    /// What was given to an attempt, if that is something else than before. An executor that is gone keeps its tools:
    /// its attempts end in another way.
    fn given_now(&self, attempt: AttemptRef, executor: &Executor) -> Option<Given> {
        let tools = self.deps.dispatch.tools_of(&executor.id);
        let tools = tools.unwrap_or_else(|| executor.given.tools.clone());
        let given = self.given(attempt, &tools);
        (given != executor.given).then_some(given)
    }
}

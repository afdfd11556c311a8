//! Decides what follows from what has arrived.

use super::{End, Owner, facts, stalled};
use crate::agents;
use crate::deps::Deps;
use crate::dispatch::Catalogue;
use cairn_engine::command::Command;
use cairn_engine::decide::{Agents, Facts, Input, ToolList, agents_needed};
use cairn_engine::event::{AttemptRef, Event};
use cairn_engine::limits::FULL_TRANSITION;
use cairn_engine::outstanding::Work;
use cairn_engine::session::Run;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Owner {
    /// Decides what follows from all that has arrived, as far as it fits into a transition.
    pub(super) async fn decide_all(&mut self, first: Option<Input>) -> Result<Vec<Event>, End> {
        let mut events = Vec::new();
        self.decide_arrived(first, &mut events).await?;
        // Only the end of a run lets a queued turn begin. The hooks are read then, not at each decision before.
        if self.starts_queued() {
            Box::pin(self.decide_arrived(Some(Input::Tick), &mut events)).await?;
        }
        Ok(events)
    }

    async fn decide_arrived(
        &mut self,
        first: Option<Input>,
        events: &mut Vec<Event>,
    ) -> Result<(), End> {
        let deps = self.deps.clone();
        let agents = self.agents(&deps).await?;
        let hooks = self.hooks(&deps, first.as_ref()).await?;
        self.follow_grants();
        let (catalogue, offered) = (deps.dispatch.catalogue(), self.offered());
        let pool = self.pool_facts();
        let facts = Facts {
            agents: &agents,
            pool: &pool,
            hooks: &hooks.present,
            starts_queued: hooks.are_all,
            ..self.facts(&deps, &catalogue, &offered)
        };
        let mut inputs: Vec<_> = first.into_iter().chain(self.found()).collect();
        loop {
            if !inputs.is_empty() {
                drop(inputs.splice(0..0, self.take_placed()));
            }
            for input in inputs.drain(..) {
                self.note_calls();
                if !self.decide_one(input, &facts, events).await? {
                    break;
                }
            }
            // A turn that waits only for the hooks to be read comes before all that is still to be decided.
            let waits_for_hooks = !facts.starts_queued && self.starts_queued();
            if waits_for_hooks || events.len() >= FULL_TRANSITION {
                return Ok(());
            }
            match self.inbox.take_message() {
                Some(message) => self.interpret(message, &mut inputs),
                None if self.answers_commands() => inputs.push(Input::HandleCommand),
                None if self.starts_steps() => inputs.push(Input::Tick),
                None => return Ok(()),
            }
        }
    }

    /// The agents that the waiting commands name, as they are now. Commands that are left to the next owner
    /// name none.
    async fn agents(&mut self, deps: &Deps) -> Result<Agents, End> {
        // A report leads to answers up to a message for its attempt, also if the owner is stopping.
        let mut waiting = self.session.commands.values();
        let has_message = waiting.any(|it| matches!(it.command, Command::SendMessage(_)));
        let needed = match has_message || self.answers_commands() {
            true => agents_needed(&self.session, None),
            false => BTreeSet::new(),
        };
        if needed.is_empty() {
            return Ok(Agents::default());
        }
        let namespace = self.key.namespace.clone();
        let session = &self.session;
        let read = |_| Box::pin(agents::read_all(deps, &namespace, session, &needed));
        self.inbox.retry_until_lease_ends(read).await
    }

    /// Steps are ready that the transition before had no room to start.
    pub(super) fn starts_steps(&self) -> bool {
        let startable = self.session.active_run().and_then(Run::startable_step);
        startable.is_some() && self.runs_steps() && !self.inbox.is_stopping()
    }

    /// Attempts that are to begin, or whose executors are to continue. One that waits for a slot is looked at
    /// when it has one.
    pub(super) fn attempts_to_continue(&self) -> Vec<AttemptRef> {
        let run = self.session.active_run().into_iter();
        let running = run.flat_map(|run| run.running_attempts());
        let next = running.filter(|(name, _, attempt)| {
            let Some(active) = self.active.get(&Work::RunStep(*name)) else {
                return true;
            };
            let executor = active.executor.as_ref();
            let is_behind = executor.is_some_and(|it| it.view.newest_op < attempt.newest_op());
            is_behind || self.reported.contains_key(name)
        });
        next.map(|(name, ..)| name).collect()
    }

    /// What is known beside the state, without agents, hooks and the pool.
    pub(super) fn facts<'a>(
        &self,
        deps: &'a Deps,
        catalogue: &'a Catalogue,
        offered: &'a BTreeMap<AttemptRef, Arc<ToolList>>,
    ) -> Facts<'a> {
        let not_after = u64::try_from(self.inbox.not_after()).unwrap_or(0);
        let starts = !self.inbox.is_stopping();
        Facts {
            journal_permille: self.journal_permille,
            ..facts(deps, catalogue, offered, not_after, starts)
        }
    }

    /// Returns whether it was taken.
    async fn decide_one(
        &mut self,
        input: Input,
        facts: &Facts<'_>,
        events: &mut Vec<Event>,
    ) -> Result<bool, End> {
        let Input::Report { attempt, .. } = input else {
            let decided = self.session.decide(input, facts);
            events.append(&mut decided.map_err(stalled)?);
            return Ok(true);
        };
        let illegal = match self.session.decide(input, facts) {
            Ok(mut decided) => {
                events.append(&mut decided);
                self.failures.remove(&Work::RunStep(attempt));
                self.waiting.remove(&Work::RunStep(attempt));
                return Ok(true);
            }
            Err(illegal) => illegal,
        };
        // The executor goes, not the session, which was emptied. What else it reported is not read.
        tracing::error!(session = %self.key, %illegal, "a report is dropped");
        self.reload(events).await?;
        let lost = self.lost(attempt, &illegal);
        let decided = self.session.decide(lost, facts);
        events.append(&mut decided.map_err(stalled)?);
        Ok(false)
    }
}

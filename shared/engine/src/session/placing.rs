//! The resources that carry out an attempt, and what the pool lacks for one.

use super::{Apply, Attempt, Call, Envelope, Run, Session, Step, StepNo};
use crate::conversation::LayerKind;
use crate::event::{
    AttemptPlaced, AttemptRef, CallRef, CapabilityFound, CapabilityShort, Effect, ShortageKind,
};
use crate::pool::{Missing, Need, ResourceTools, TaskContext};
use crate::transitions::{Applied, CallPhase, IllegalTransition};
use serde::{Deserialize, Serialize};

/// What the pool lacks for an attempt, which waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Short {
    /// What it lacks, sorted by name; at least one.
    pub missing: Vec<Missing>,
    /// Whether there are such resources at all.
    pub kind: ShortageKind,
    /// Since when, in milliseconds since 1970.
    pub since: u64,
}

/// The resources of the last attempt at a step, and what it waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// Ids of the resources that took it last, the executor first; empty before the first.
    pub resources: Vec<String>,
    /// The longest time that it waited for a slot, in milliseconds.
    pub waited_ms: u64,
    /// What the pool lacked when it last waited; empty if it never lacked anything.
    pub lacked: Vec<Missing>,
}

impl Attempt {
    /// The shortage of something that no resource has. The attempt asks for no slot until one has it.
    pub fn shortage(&self) -> Option<&Short> {
        let short = self.short.as_ref();
        short.filter(|short| short.kind == ShortageKind::None)
    }

    /// No resource has what it needs.
    pub fn lacks_capability(&self) -> bool {
        self.shortage().is_some()
    }

    /// The calls of the last reply that an executor has to make, and that are neither asked about nor in doubt. While
    /// the attempt has no executor, those with side effects were not sent.
    pub(crate) fn unsent_calls(
        &self,
        attempt: AttemptRef,
    ) -> impl Iterator<Item = (CallRef, &Call)> {
        let is_unsent = |call: &Call| {
            let phase = call.status.phase();
            call.effect != Effect::State
                && matches!(phase, CallPhase::Requested | CallPhase::Intended)
        };
        let calls = self.last_calls(attempt);
        calls.filter(move |(_, call)| is_unsent(call))
    }
}

impl Run {
    /// No resource has what an attempt under way needs.
    pub(crate) fn lacks_capability(&self) -> bool {
        let mut attempts = self.running_attempts();
        attempts.any(|(_, _, attempt)| attempt.lacks_capability())
    }
}

impl Step {
    /// The task for the agent context. A step of one call is described by its label.
    pub fn task(&self, number: StepNo, run: Option<&Run>) -> TaskContext {
        let plan = &self.plan;
        let description = match plan.description.as_str() {
            "" => plan.label(),
            description => description,
        };
        let of_run = run.map_or("", |run| run.external_id.as_str());
        TaskContext {
            id: format!("step-{number}"),
            description: description.to_owned(),
            required_capabilities: plan.capabilities.clone(),
            external_id: given(plan.external_id.as_str()).or_else(|| given(of_run)),
        }
    }

    /// The note for its model: its own, or that of its run.
    pub fn prompt_note(&self, run: Option<&Run>) -> Option<String> {
        let of_run = run.map_or("", |run| run.note.as_str());
        given(self.plan.note.as_str()).or_else(|| given(of_run))
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Session {
    /// What an attempt needs of the resources that carry it out: what its step names, what its agent needs, and the
    /// tool of a step of one call.
    pub fn need_of(&self, attempt: AttemptRef) -> Need {
        self.need_of_step(attempt.run, self.step(attempt))
    }

    /// What the next attempt at a step of a run needs. Without a step, it is what the agent of the run needs.
    pub fn need_of_step(&self, run: u32, step: Option<&Step>) -> Need {
        let agent = self.agent_of_run(run);
        let of_step = step.into_iter().flat_map(|step| &step.plan.capabilities);
        let of_agent = agent
            .into_iter()
            .flat_map(|agent| &agent.definition.capabilities);
        let needed = of_step.chain(of_agent).map(String::as_str);
        let tool = step.and_then(|step| step.plan.tool.as_ref());
        Need {
            tool: tool.map(|tool| tool.name.clone()),
            ..Need::of(needed)
        }
    }

    /// An attempt without resources has a call of a tool that an executor with these tools may not use.
    pub fn has_call_beyond(&self, attempt: AttemptRef, tools: &ResourceTools) -> bool {
        let running = self.attempt(attempt);
        running.is_some_and(|running| {
            let mut calls = running.unsent_calls(attempt);
            calls.any(|(_, call)| !tools.allows(&call.call.name))
        })
    }

    /// The system prompt of a step without a reply has the pool, and that text names other resources than these, or
    /// was written before a wait.
    pub fn has_outdated_pool(&self, attempt: AttemptRef, resources: &[String]) -> bool {
        let Some((running, step)) = self.attempt(attempt).zip(self.step(attempt)) else {
            return false;
        };
        let has_model = !self.is_tool_step(attempt) && self.turn(attempt).is_none();
        if !has_model || running.tool_turns > 0 {
            return false;
        }
        let layer = running.written(&running.conversation, LayerKind::Pool);
        let has_waited = !step.placing.lacked.is_empty();
        layer.is_some_and(|layer| has_waited || layer.allotted != resources)
    }
}

/// A shortage of what is busy ends with it.
impl Apply for AttemptPlaced {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        if attempt.lacks_capability() {
            return Err(refused(self.attempt, "lacks a capability", "placed"));
        }
        attempt.short = None;
        let placing = &mut session.step_mut(self.attempt)?.placing;
        placing.resources.clone_from(&self.resources);
        placing.waited_ms = placing.waited_ms.max(self.waited_ms);
        Ok(())
    }
}

impl Apply for CapabilityShort {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        if self.missing.is_empty() {
            let what = format!("{:?} lacks nothing", self.attempt);
            return Err(IllegalTransition::Malformed { what });
        }
        let attempt = session.attempt_mut(self.attempt)?;
        let known = attempt.short.as_ref().map(|short| short.kind);
        if !may_become(known, self.kind) {
            return Err(refused(self.attempt, "short already", "short"));
        }
        attempt.short = Some(Short {
            missing: self.missing.clone(),
            kind: self.kind,
            since: envelope.at,
        });
        attempt.times_short += u32::from(self.kind == ShortageKind::None);
        let placing = &mut session.step_mut(self.attempt)?.placing;
        placing.lacked.clone_from(&self.missing);
        Ok(())
    }
}

impl Apply for CapabilityFound {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        if !attempt.lacks_capability() {
            return Err(refused(self.attempt, "lacks nothing", "found"));
        }
        attempt.short = None;
        Ok(())
    }
}

/// A wait is written once, and once more if the resources that were busy are gone.
pub(crate) fn may_become(known: Option<ShortageKind>, kind: ShortageKind) -> bool {
    match known {
        None => true,
        Some(ShortageKind::Busy) => kind == ShortageKind::None,
        Some(ShortageKind::None) => false,
    }
}

fn refused(attempt: AttemptRef, from: &str, to: &str) -> IllegalTransition {
    IllegalTransition::not_allowed(format_args!("{attempt:?}"), from, to)
}

//! What each event adds to the tree.

mod call;
mod hook;
mod run;
mod step;

use super::{Node, NodeIndex, NodeKind, NodeStatus, Tree};
use crate::figures::known_cost;
use cairn_engine::event::{AttemptRef, Event, EventKind};
use cairn_engine::key::short_digest;
use cairn_engine::message::{ToolCall, Usage};
use cairn_engine::session::RunStatus;

/// What is known of an attempt under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Working {
    attempt: AttemptRef,
    /// The goal of the step.
    goal: NodeIndex,
    sub_goals: Vec<NodeIndex>,
    /// The sub-goal in focus.
    focus: Option<NodeIndex>,
    /// The step is one call without a model.
    is_tool_step: bool,
    /// The tool turn that `calls` belong to.
    tool_turn: u32,
    calls: Vec<WorkingCall>,
    /// What the last reply said.
    thought: Option<NodeIndex>,
    /// Usage and duration of the last reply, until a node has taken them.
    unclaimed: Option<(Usage, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct WorkingCall {
    call: ToolCall,
    /// None for the `step` tool, which makes goals and evaluations instead.
    action: Option<NodeIndex>,
    /// The goal that was in progress when it was asked for.
    goal: NodeIndex,
}

/// The event that a node comes from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    seq: u64,
    at: u64,
}

/// What tells a node from all others of its kind in the run.
type Path = [u32; 4];

impl Tree {
    /// Folds the event numbered `seq`. Events must come in the order of the journal; what refers
    /// to something that did not come before is left out.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        use EventKind as E;
        let origin = Origin { seq, at: event.at };
        for (attempt, usage) in self.compactions.take(seq, event) {
            self.charge_beside(attempt, &usage);
        }
        if let E::CallFinished(it) = &event.kind
            && let Some(usage) = &it.usage
        {
            self.charge_beside(it.call.attempt, usage);
        }
        match &event.kind {
            E::CommandReceived(it) => self.keep_turn(seq, &it.command),
            E::RunStarted(it) => self.start_run(it, event.answers, origin),
            E::PlanApplied(it) => self.apply_plan(it, origin),
            E::PlanProposed(it) => self.charge_planning(it.run, &it.usage),
            E::RevisionFailed(it) => self.charge_planning(it.run, &it.usage),
            E::RunPaused(it) => self.set_run(it.run, RunStatus::Paused),
            E::RunWaiting(it) => self.set_run(it.run, RunStatus::Waiting(it.reason)),
            E::RunResumed(it) => self.resume_run(it.run),
            E::RunCompleted(it) => self.complete_run(it, origin),
            E::RunFailed(it) => self.fail_run(it, origin),
            E::RunCancelled(it) => self.end_run(it.run, RunStatus::Cancelled, origin),
            E::StepStarted(it) => self.start_step(it.attempt, it.tool_effect.is_some(), origin),
            E::StepCompleted(it) => self.complete_step(it.attempt, &it.summary, origin),
            E::StepFailed(it) => self.fail_step(it, origin),
            E::StepSkipped(it) => self.skip_step(it, origin),
            E::SubGoalAdded(it) => self.add_sub_goal(it.attempt, it.index, &it.text, origin),
            E::SubGoalFocused(it) => self.focus(it.attempt, it.index, origin),
            E::SubGoalCompleted(it) => self.complete_sub_goal(it, origin),
            E::SubGoalDropped(it) => self.drop_sub_goal(it.attempt, it.index, origin),
            E::ReplyReceived(it) => self.take_reply(it, origin),
            E::CallFinished(it) => self.finish_call(it, origin),
            E::CallInDoubt(it) => self.doubt_call(it.call),
            E::CallSettled(it) => self.settle_call(it, origin),
            E::HooksAnswered(it) => self.take_hooks(it, origin),
            _ => {}
        }
    }

    /// What a summary used up, or a call that asked a model, counts as that of a reply does, but no node is made of it.
    fn charge_beside(&mut self, attempt: AttemptRef, usage: &Usage) {
        if let Some(run) = self.runs.get_mut(&attempt.run) {
            run.usage.add(usage);
        }
        let focus = self.working_on(attempt).and_then(|working| working.focus);
        let goal = self.step(attempt.run, attempt.step);
        for node in goal.into_iter().chain(focus) {
            self.nodes[node].charge(usage);
        }
    }

    /// Adds a planned node without a description. None if there is no such run.
    fn add(
        &mut self,
        run: u32,
        parent: Option<NodeIndex>,
        kind: NodeKind,
        path: Path,
        origin: Origin,
    ) -> Option<NodeIndex> {
        let root = self.runs.get_mut(&run)?;
        let index = self.nodes.len();
        root.nodes += 1;
        let numbers = [[run, kind as u32].as_slice(), &path].concat();
        let node = Node {
            id: short_digest("cairn.node", &numbers),
            kind,
            status: NodeStatus::Planned,
            sequence: root.nodes,
            seq: origin.seq,
            run,
            parent,
            children: Vec::new(),
            description: String::new(),
            data: Vec::new(),
            summary: None,
            duration_ms: None,
            tokens: None,
            cost_nano_usd: None,
            created_at: origin.at,
            began_at: None,
        };
        match parent {
            Some(parent) => self.nodes[parent].children.push(index),
            None => root.roots.push(index),
        }
        self.nodes.push(node);
        Some(index)
    }
}

impl Node {
    fn begin(&mut self, origin: Origin) {
        self.status = NodeStatus::InProgress;
        self.began_at.get_or_insert(origin.at);
    }

    fn end(&mut self, status: NodeStatus, origin: Origin) {
        self.status = status;
        self.duration_ms = self.began_at.map(|began| origin.at.saturating_sub(began));
    }

    /// Nothing is shown of what used up nothing.
    fn charge(&mut self, usage: &Usage) {
        let add = |sum: &mut Option<u64>, more: u64| {
            *sum = Some(sum.unwrap_or_default().saturating_add(more));
        };
        if usage.tokens() > 0 {
            add(&mut self.tokens, usage.tokens());
        }
        let cost = known_cost(usage).filter(|cost| *cost > 0 || usage.tokens() > 0);
        if let Some(cost) = cost {
            add(&mut self.cost_nano_usd, cost);
        }
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.data.retain(|(key, _)| *key != name);
        self.data.push((name, value.into()));
    }
}

//! What each event adds to the tree.

mod call;
mod step;

use super::{Node, NodeIndex, NodeKind, NodeStatus, RunRoot, Tree, describe};
use crate::event::{AttemptRef, Event, EventKind};
use crate::key::short_digest;
use crate::message::{ToolCall, Usage};
use crate::plan::{PlanDraft, StepDraft};
use crate::state::RunStatus;

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
type Place = [u32; 4];

impl Tree {
    /// Folds the event numbered `seq`. Events must come in the order of the journal; what refers
    /// to something that did not come before is left out.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        use EventKind as E;
        let origin = Origin { seq, at: event.at };
        match &event.kind {
            E::RunStarted {
                run,
                goal,
                trace_parent,
                ..
            } => self.start_run(*run, goal, trace_parent, origin),
            E::PlanApplied {
                run,
                revision,
                plan,
                usage,
                ..
            } => self.take_plan(*run, *revision, plan, usage, origin),
            E::RunWaiting { run, reason } => self.set_run(*run, RunStatus::Waiting(*reason)),
            E::RunResumed { run } => self.set_run(*run, RunStatus::Running),
            E::RunCompleted { run, answer } => {
                self.add_response(*run, answer, origin);
                self.end_run(*run, RunStatus::Completed, origin);
            }
            E::RunFailed { run, usage, .. } => {
                self.end_run(*run, RunStatus::Failed, origin);
                if let (Some(root), Some(usage)) = (self.runs.get_mut(run), usage) {
                    root.usage.add(usage);
                }
            }
            E::RunCancelled { run, .. } => self.end_run(*run, RunStatus::Cancelled, origin),
            other => self.apply_to_step(other, origin),
        }
    }

    fn start_run(&mut self, number: u32, goal: &str, trace_parent: &str, origin: Origin) {
        let root = RunRoot {
            number,
            task: goal.to_owned(),
            status: RunStatus::Planning,
            trace_id: trace_id_of(trace_parent).to_owned(),
            roots: Vec::new(),
            nodes: 0,
            usage: Usage::default(),
            started_at: origin.at,
            ended_at: None,
            steps: Vec::new(),
        };
        self.runs.insert(number, root);
    }

    fn take_plan(
        &mut self,
        run: u32,
        revision: u32,
        plan: &PlanDraft,
        usage: &Usage,
        origin: Origin,
    ) {
        let mut steps = Vec::with_capacity(plan.steps.len());
        for (position, step) in plan.steps.iter().enumerate() {
            let place = [revision, position as u32 + 1, 0, 0];
            let Some(goal) = self.add(run, None, NodeKind::Goal, place, origin) else {
                return;
            };
            let node = &mut self.nodes[goal];
            node.description = describe::whole(&step.label(position));
            node.data = plan_data(step);
            steps.push(goal);
        }
        if let Some(root) = self.runs.get_mut(&run) {
            root.status = RunStatus::Running;
            root.usage.add(usage);
            root.steps = steps;
        }
    }

    fn set_run(&mut self, run: u32, status: RunStatus) {
        if let Some(root) = self.runs.get_mut(&run) {
            root.status = status;
        }
    }

    fn end_run(&mut self, run: u32, status: RunStatus, origin: Origin) {
        if let Some(root) = self.runs.get_mut(&run) {
            root.status = status;
            root.ended_at = Some(origin.at);
        }
    }

    fn add_response(&mut self, run: u32, answer: &str, origin: Origin) {
        if answer.trim().is_empty() {
            return;
        }
        if let Some(response) = self.add(run, None, NodeKind::Response, [0; 4], origin) {
            let node = &mut self.nodes[response];
            node.status = NodeStatus::Completed;
            node.description = describe::text(answer);
            node.data.push(("content", answer.to_owned()));
        }
    }

    /// Adds a planned node without a description. None if there is no such run.
    fn add(
        &mut self,
        run: u32,
        parent: Option<NodeIndex>,
        kind: NodeKind,
        place: Place,
        origin: Origin,
    ) -> Option<NodeIndex> {
        let root = self.runs.get_mut(&run)?;
        let index = self.nodes.len();
        root.nodes += 1;
        let numbers = [[run, kind as u32].as_slice(), &place].concat();
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
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let add = |sum: &mut Option<u64>, more: u64| {
            if more > 0 {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        };
        add(&mut self.tokens, tokens);
        add(&mut self.cost_nano_usd, usage.cost_nano_usd);
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.data.retain(|(key, _)| *key != name);
        self.data.push((name, value.into()));
    }
}

fn plan_data(step: &StepDraft) -> Vec<(&'static str, String)> {
    let mut data = vec![
        ("title", step.title.clone()),
        ("description", step.description.clone()),
    ];
    if let Some(tool) = &step.tool {
        data.push(("tool_name", tool.name.clone()));
        data.push(("arguments", tool.arguments.clone()));
    }
    data.push(("depends_on", step.depends_on.join(", ")));
    data.retain(|(_, value)| !value.is_empty());
    data
}

/// The second field of a W3C traceparent.
fn trace_id_of(trace_parent: &str) -> &str {
    trace_parent.split('-').nth(1).unwrap_or_default()
}

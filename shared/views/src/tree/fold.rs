//! What each event adds to the tree.

mod call;
mod step;

use super::{Node, NodeIndex, NodeKind, NodeStatus, RunRoot, Tree, describe};
use cairn_engine::command::Command;
use cairn_engine::event::{self, AttemptRef, Event, EventKind, StartedTurn};
use cairn_engine::key::short_digest;
use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_engine::plan::{PlanDraft, StepDraft, numbers_of};
use cairn_engine::session::{Place, RunStatus, StepNo, Turn};
use std::collections::{BTreeMap, HashSet};

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

/// What says of a goal that it is not in the plan any more.
const SUPERSEDED: &str = "superseded";

/// What tells a node from all others of its kind in the run.
type Path = [u32; 4];

impl Tree {
    /// Folds the event numbered `seq`. Events must come in the order of the journal; what refers
    /// to something that did not come before is left out.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        use EventKind as E;
        let origin = Origin { seq, at: event.at };
        match &event.kind {
            E::RunStarted(event::RunStarted {
                run,
                goal,
                trace_parent,
                turn,
                ..
            }) => {
                self.start_run(*run, goal, trace_parent, origin);
                if let Some(turn) = turn {
                    self.start_turn(*run, turn, event.answers, origin);
                }
            }
            E::CommandReceived(received) => self.keep_turn(seq, &received.command),
            E::PlanApplied(event::PlanApplied {
                run,
                revision,
                plan,
                numbers,
                usage,
                ..
            }) => {
                let numbers = numbers_of(plan, numbers);
                self.take_plan(*run, *revision, plan, &numbers, origin);
                self.charge_planning(*run, usage);
            }
            E::PlanProposed(event::PlanProposed { run, usage, .. })
            | E::RevisionFailed(event::RevisionFailed { run, usage, .. }) => {
                self.charge_planning(*run, usage);
            }
            E::RunPaused(event::RunPaused { run, .. }) => self.set_run(*run, RunStatus::Paused),
            E::RunWaiting(event::RunWaiting { run, reason }) => {
                self.set_run(*run, RunStatus::Waiting(*reason))
            }
            E::RunResumed(event::RunResumed { run, .. }) => {
                let has_plan = self.run(*run).is_some_and(|root| !root.steps.is_empty());
                let status = [RunStatus::Planning, RunStatus::Running][usize::from(has_plan)];
                self.set_run(*run, status);
            }
            E::RunCompleted(event::RunCompleted { run, answer }) => {
                self.add_response(*run, answer, origin);
                self.end_run(*run, RunStatus::Completed, origin);
            }
            E::RunFailed(event::RunFailed { run, usage, .. }) => {
                self.end_run(*run, RunStatus::Failed, origin);
                self.charge_planning(*run, &usage.unwrap_or_default());
            }
            E::RunCancelled(event::RunCancelled { run, .. }) => {
                self.end_run(*run, RunStatus::Cancelled, origin)
            }
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
            steps: BTreeMap::new(),
        };
        self.runs.insert(number, root);
    }

    /// What a person says is in the command of the turn, which may wait.
    fn keep_turn(&mut self, seq: u64, command: &Command) {
        if let Command::SubmitTurn(turn) = command {
            let said = turn.message.as_ref().map(Message::text);
            self.waiting_turns.insert(seq, said.unwrap_or_default());
        }
    }

    /// A turn is a run of one step.
    fn start_turn(&mut self, run: u32, turn: &StartedTurn, answers: u64, origin: Origin) {
        let command = match turn.queued {
            0 => answers,
            queued => queued,
        };
        let said = self.waiting_turns.remove(&command);
        if let Some(root) = self.runs.get_mut(&run) {
            root.task = said.unwrap_or_default();
        }
        let plan = Turn::draft();
        let numbers = numbers_of(&plan, &[]);
        self.take_plan(run, 1, &plan, &numbers, origin);
    }

    /// Goals that another plan keeps stay as they are. Those that it drops stay, too, behind the
    /// plan: what was done for them was done.
    fn take_plan(
        &mut self,
        run: u32,
        revision: u32,
        plan: &PlanDraft,
        numbers: &[StepNo],
        origin: Origin,
    ) {
        for ((place, step), &number) in Place::all().zip(&plan.steps).zip(numbers) {
            let kept = self.step(run, number);
            let path = [revision, number.into(), 0, 0];
            let Some(goal) = kept.or_else(|| self.add(run, None, NodeKind::Goal, path, origin))
            else {
                return;
            };
            let node = &mut self.nodes[goal];
            if kept.is_none() {
                node.description = describe::whole(&step.label(place));
                node.data = plan_data(step);
            }
            node.data.retain(|(key, _)| *key != SUPERSEDED);
            if let Some(root) = self.runs.get_mut(&run) {
                root.steps.insert(number, goal);
            }
        }
        self.order_goals(run, revision, numbers, origin);
    }

    /// The goals of the plan first, in its order.
    fn order_goals(&mut self, run: u32, revision: u32, numbers: &[StepNo], origin: Origin) {
        let Some(root) = self.runs.get_mut(&run) else {
            return;
        };
        // A run that waits or is paused stays so.
        if root.status == RunStatus::Planning || root.status.is_terminal() {
            root.status = RunStatus::Running;
        }
        root.ended_at = None;
        let goals: Vec<NodeIndex> = numbers.iter().map(|number| root.steps[number]).collect();
        let in_force: HashSet<NodeIndex> = goals.iter().copied().collect();
        let others = std::mem::replace(&mut root.roots, goals);
        let others = others.into_iter().filter(|node| !in_force.contains(node));
        root.roots.extend(others);
        for goal in root.steps.values().filter(|goal| !in_force.contains(goal)) {
            let node = &mut self.nodes[*goal];
            if node.datum(SUPERSEDED).is_none() {
                node.set(SUPERSEDED, format!("by revision {revision}"));
            }
            if node.status == NodeStatus::Planned {
                node.end(NodeStatus::Skipped, origin);
            }
        }
    }

    fn charge_planning(&mut self, run: u32, usage: &Usage) {
        if let Some(root) = self.runs.get_mut(&run) {
            root.usage.add(usage);
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
        // A run that another plan opened again answers once more.
        let roots = self.run(run).map_or(&[][..], |root| &root.roots);
        let is_response = |root: &&NodeIndex| self.nodes[**root].kind == NodeKind::Response;
        let before = roots.iter().filter(is_response).count() as u32;
        let path = [before, 0, 0, 0];
        if let Some(response) = self.add(run, None, NodeKind::Response, path, origin) {
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

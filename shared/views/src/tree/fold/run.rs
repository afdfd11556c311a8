//! Runs, their plans and their ends.

use super::super::{NodeIndex, NodeKind, NodeStatus, RunRoot, Tree, describe};
use super::Origin;
use cairn_engine::command::Command;
use cairn_engine::event::{PlanApplied, RunCompleted, RunFailed, RunStarted, StartedTurn};
use cairn_engine::message::{Message, Usage};
use cairn_engine::plan::{PlanDraft, StepDraft, numbers_of};
use cairn_engine::session::{Place, RunStatus, StepNo, Turn};
use std::collections::{BTreeMap, HashSet};

/// What says of a goal that it is not in the plan any more.
const SUPERSEDED: &str = "superseded";

impl Tree {
    pub(super) fn start_run(&mut self, started: &RunStarted, answers: u64, origin: Origin) {
        let root = RunRoot {
            number: started.run,
            task: started.goal.clone(),
            agent: started
                .agent
                .as_ref()
                .map(|used| used.name.clone())
                .unwrap_or_default(),
            status: RunStatus::Planning,
            trace_id: trace_id_of(&started.trace_parent).to_owned(),
            roots: Vec::new(),
            nodes: 0,
            usage: Usage::default(),
            started_at: origin.at,
            ended_at: None,
            steps: BTreeMap::new(),
        };
        self.runs.insert(started.run, root);
        if let Some(turn) = &started.turn {
            self.start_turn(started.run, turn, answers, origin);
        }
    }

    /// What a person says is in the command of the turn, which may wait.
    pub(super) fn keep_turn(&mut self, seq: u64, command: &Command) {
        if let Command::SubmitTurn(turn) = command {
            let said = turn.message.as_ref().map(Message::said);
            self.waiting_turns.insert(seq, said.unwrap_or_default());
        }
    }

    /// A turn is a run of one step.
    fn start_turn(&mut self, run: u32, turn: &StartedTurn, answers: u64, origin: Origin) {
        let said = self.waiting_turns.remove(&turn.command(answers));
        // A compaction of a context has the goal of its run, if it has one.
        if let (Some(root), Some(said)) = (self.runs.get_mut(&run), said) {
            root.task = said;
        }
        let plan = Turn::draft();
        let numbers = numbers_of(&plan, &[]);
        self.take_plan(run, 1, &plan, &numbers, origin);
    }

    pub(super) fn apply_plan(&mut self, applied: &PlanApplied, origin: Origin) {
        let numbers = numbers_of(&applied.plan, &applied.numbers);
        self.take_plan(
            applied.run,
            applied.revision,
            &applied.plan,
            &numbers,
            origin,
        );
        self.charge_planning(applied.run, &applied.usage);
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

    pub(super) fn charge_planning(&mut self, run: u32, usage: &Usage) {
        if let Some(root) = self.runs.get_mut(&run) {
            root.usage.add(usage);
        }
    }

    pub(super) fn set_run(&mut self, run: u32, status: RunStatus) {
        if let Some(root) = self.runs.get_mut(&run) {
            root.status = status;
        }
    }

    pub(super) fn end_run(&mut self, run: u32, status: RunStatus, origin: Origin) {
        if let Some(root) = self.runs.get_mut(&run) {
            root.status = status;
            root.ended_at = Some(origin.at);
        }
    }

    pub(super) fn resume_run(&mut self, run: u32) {
        let has_plan = self.run(run).is_some_and(|root| !root.steps.is_empty());
        let status = [RunStatus::Planning, RunStatus::Running][usize::from(has_plan)];
        self.set_run(run, status);
    }

    pub(super) fn complete_run(&mut self, completed: &RunCompleted, origin: Origin) {
        self.add_response(completed.run, &completed.answer, origin);
        self.end_run(completed.run, RunStatus::Completed, origin);
    }

    pub(super) fn fail_run(&mut self, failed: &RunFailed, origin: Origin) {
        self.end_run(failed.run, RunStatus::Failed, origin);
        self.charge_planning(failed.run, &failed.usage.unwrap_or_default());
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

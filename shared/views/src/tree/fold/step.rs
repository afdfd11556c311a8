//! Steps, their parts and their ends.

use super::super::{NodeIndex, NodeKind, NodeStatus, Tree, describe};
use super::{Origin, Working, WorkingCall};
use cairn_engine::event::{AttemptRef, StepFailed, StepSkipped, SubGoalCompleted};
use cairn_engine::message::ToolCall;
use cairn_engine::session::StepNo;

impl Tree {
    pub(super) fn start_step(&mut self, attempt: AttemptRef, is_tool_step: bool, origin: Origin) {
        let Some(goal) = self.step(attempt.run, attempt.step) else {
            return;
        };
        self.nodes[goal].begin(origin);
        let mut working = Working {
            attempt,
            goal,
            sub_goals: Vec::new(),
            focus: None,
            is_tool_step,
            tool_turn: 0,
            calls: Vec::new(),
            thought: None,
            unclaimed: None,
        };
        if is_tool_step {
            let datum = |name| self.nodes[goal].datum(name).unwrap_or_default().to_owned();
            let call = ToolCall {
                id: String::new(),
                name: datum("tool_name"),
                arguments: datum("arguments"),
            };
            let action = self.add_action(&mut working, &call, 0, origin);
            working.calls.push(WorkingCall { call, action, goal });
        }
        self.working.insert((attempt.run, attempt.step), working);
    }

    /// The model's summary is an evaluation; that of a tool step is its result already.
    pub(super) fn complete_step(&mut self, attempt: AttemptRef, summary: &str, origin: Origin) {
        let key = (attempt.run, attempt.step);
        if let Some(mut working) = self.working.remove(&key) {
            // A turn ends with a reply without calls, a step with a call and a summary.
            if !working.is_tool_step && summary.is_empty() && working.calls.is_empty() {
                self.answer_turn(&working);
            } else if !working.is_tool_step {
                let goal = working.goal;
                self.add_evaluation(&mut working, goal, u32::MAX, summary, origin);
            }
            self.working.insert(key, working);
        }
        self.end_step(attempt.run, attempt.step, NodeStatus::Completed, origin);
    }

    /// The last reply of a turn is no thought but its answer.
    fn answer_turn(&mut self, working: &Working) {
        let children = self.nodes[working.goal].children.iter();
        let last = children.copied().next_back();
        let last = last.map(|child| &mut self.nodes[child]);
        if let Some(thought) = last.filter(|node| node.kind == NodeKind::Thought) {
            thought.kind = NodeKind::Response;
        }
    }

    pub(super) fn fail_step(&mut self, failed: &StepFailed, origin: Origin) {
        let attempt = failed.attempt;
        if let Some(goal) = self.step(attempt.run, attempt.step) {
            self.nodes[goal].set("error", failed.failure.message.clone());
            self.nodes[goal].set("reason", failed.failure.reason.clone());
        }
        self.end_step(attempt.run, attempt.step, NodeStatus::Failed, origin);
    }

    pub(super) fn skip_step(&mut self, skipped: &StepSkipped, origin: Origin) {
        if let Some(goal) = self.step(skipped.run, skipped.step) {
            self.nodes[goal].set("reason", skipped.reason.clone());
        }
        self.end_step(skipped.run, skipped.step, NodeStatus::Skipped, origin);
    }

    /// What is still open under the step ends with it.
    fn end_step(&mut self, run: u32, step: StepNo, status: NodeStatus, origin: Origin) {
        if let Some(goal) = self.step(run, step) {
            self.nodes[goal].end(status, origin);
        }
        let Some(working) = self.working.remove(&(run, step)) else {
            return;
        };
        let actions = working.calls.iter().filter_map(|call| call.action);
        for node in actions.chain(working.sub_goals) {
            if matches!(
                self.nodes[node].status,
                NodeStatus::Planned | NodeStatus::InProgress
            ) {
                self.nodes[node].end(NodeStatus::Skipped, origin);
            }
        }
    }

    pub(super) fn add_sub_goal(
        &mut self,
        attempt: AttemptRef,
        index: u32,
        text: &str,
        origin: Origin,
    ) {
        let Some(working) = self.working_on(attempt) else {
            return;
        };
        let (goal, path) = (working.goal, path_of(attempt, index, 1));
        let sub_goal = self.add(attempt.run, Some(goal), NodeKind::Goal, path, origin);
        if let Some(sub_goal) = sub_goal {
            self.nodes[sub_goal].description = describe::whole(text);
            self.nodes[sub_goal]
                .data
                .push(("description", text.to_owned()));
            if let Some(working) = self.working_on(attempt) {
                working.sub_goals.push(sub_goal);
            }
        }
    }

    /// A goal that loses the focus before it is completed is as if planned, until it comes back.
    pub(super) fn focus(&mut self, attempt: AttemptRef, index: u32, origin: Origin) {
        let Some(working) = self.working_on(attempt) else {
            return;
        };
        let Some(&sub_goal) = working.sub_goals.get(index as usize) else {
            return;
        };
        let before = working.focus.replace(sub_goal);
        if let Some(before) = before {
            self.nodes[before].status = NodeStatus::Planned;
        }
        self.nodes[sub_goal].begin(origin);
        self.move_actions(attempt);
    }

    /// Calls of `step` count before the other calls of their reply: those belong to the goal that is
    /// in progress after them.
    fn move_actions(&mut self, attempt: AttemptRef) {
        let Some(working) = self.working_on(attempt) else {
            return;
        };
        let goal = working.goal_in_progress();
        let actions = working.calls.iter().filter_map(|call| call.action);
        for action in actions.collect::<Vec<_>>() {
            let before = self.nodes[action].parent.replace(goal);
            if let Some(before) = before {
                self.nodes[before].children.retain(|child| *child != action);
            }
            self.nodes[goal].children.push(action);
        }
    }

    pub(super) fn complete_sub_goal(&mut self, completed: &SubGoalCompleted, origin: Origin) {
        let (attempt, index) = (completed.attempt, completed.index);
        let key = (attempt.run, attempt.step);
        let Some(mut working) = self.working.remove(&key) else {
            return;
        };
        if let Some(&sub_goal) = working.sub_goals.get(index as usize) {
            working.focus = working.focus.filter(|&focus| focus != sub_goal);
            self.add_evaluation(&mut working, sub_goal, index, &completed.summary, origin);
            self.nodes[sub_goal].end(NodeStatus::Completed, origin);
        }
        self.working.insert(key, working);
        self.move_actions(attempt);
    }

    pub(super) fn drop_sub_goal(&mut self, attempt: AttemptRef, index: u32, origin: Origin) {
        let Some(working) = self.working_on(attempt) else {
            return;
        };
        let Some(&sub_goal) = working.sub_goals.get(index as usize) else {
            return;
        };
        working.focus = working.focus.filter(|&focus| focus != sub_goal);
        self.nodes[sub_goal].end(NodeStatus::Skipped, origin);
        self.move_actions(attempt);
    }

    fn add_evaluation(
        &mut self,
        working: &mut Working,
        goal: NodeIndex,
        index: u32,
        summary: &str,
        origin: Origin,
    ) {
        let attempt = working.attempt;
        let path = path_of(attempt, index, 0);
        let evaluation = self.add(attempt.run, Some(goal), NodeKind::Evaluation, path, origin);
        if let Some(evaluation) = evaluation {
            let node = &mut self.nodes[evaluation];
            node.status = NodeStatus::Completed;
            node.description = describe::whole(summary);
            node.summary = Some(summary.to_owned());
            working.claim(node);
        }
    }

    pub(super) fn working_on(&mut self, attempt: AttemptRef) -> Option<&mut Working> {
        self.working.get_mut(&(attempt.run, attempt.step))
    }
}

/// The path of what belongs to an attempt.
pub(super) fn path_of(attempt: AttemptRef, a: u32, b: u32) -> super::Path {
    [attempt.step.into(), attempt.attempt, a, b]
}

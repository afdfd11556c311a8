//! Replies, calls and results.

use super::super::infer::{infer, is_step_tool};
use super::super::{Node, NodeIndex, NodeKind, NodeStatus, Tree, describe};
use super::step::path_of;
use super::{Origin, Working, WorkingCall};
use crate::figures::rest_of_result;
use cairn_engine::command::Settlement;
use cairn_engine::event::{CallFinished, CallRef, CallSettled, ReplyReceived};
use cairn_engine::message::ToolCall;

/// How a call ended, as its result shows it.
struct Outcome<'a> {
    output: &'a str,
    reason: &'a str,
    status: NodeStatus,
    duration_ms: Option<u64>,
    /// What follows the output, if that is the beginning of a long result; else empty.
    rest: String,
}

impl Tree {
    pub(super) fn take_reply(&mut self, reply: &ReplyReceived, origin: Origin) {
        let attempt = reply.attempt;
        let key = (attempt.run, attempt.step);
        let Some(mut working) = self.working.remove(&key) else {
            return;
        };
        if let Some(run) = self.runs.get_mut(&attempt.run) {
            run.usage.add(&reply.usage);
        }
        self.nodes[working.goal].charge(&reply.usage);
        if let Some(focus) = working.focus {
            self.nodes[focus].charge(&reply.usage);
        }
        working.unclaimed = Some((reply.usage, reply.duration_ms));
        working.tool_turn = reply.tool_turn;
        working.thought = None;
        working.calls.clear();
        let calls: Vec<ToolCall> = reply.calls.iter().map(|it| it.call.clone()).collect();
        if infer(&reply.text, &calls, false).first() == Some(&NodeKind::Thought) {
            self.add_thought(&mut working, &reply.text, origin);
        }
        for (call, index) in calls.into_iter().zip(0..) {
            let action = if is_step_tool(&call) {
                None
            } else {
                self.add_action(&mut working, &call, index, origin)
            };
            let goal = working.goal_in_progress();
            working.calls.push(WorkingCall { call, action, goal });
        }
        self.working.insert(key, working);
    }

    pub(super) fn add_thought(&mut self, working: &mut Working, text: &str, origin: Origin) {
        let attempt = working.attempt;
        let parent = Some(working.goal_in_progress());
        let path = path_of(attempt, working.tool_turn, 0);
        working.thought = self.add(attempt.run, parent, NodeKind::Thought, path, origin);
        if let Some(thought) = working.thought {
            let node = &mut self.nodes[thought];
            node.status = NodeStatus::Completed;
            node.say(text);
            if let Some((_, duration_ms)) = working.unclaimed {
                node.duration_ms = Some(duration_ms);
            }
            working.claim(node);
        }
    }

    pub(super) fn add_action(
        &mut self,
        working: &mut Working,
        call: &ToolCall,
        index: u32,
        origin: Origin,
    ) -> Option<NodeIndex> {
        let name = CallRef {
            attempt: working.attempt,
            tool_turn: working.tool_turn,
            index,
        };
        let action = self.add_action_at(name, working.goal_in_progress(), call, origin)?;
        working.claim(&mut self.nodes[action]);
        Some(action)
    }

    fn add_action_at(
        &mut self,
        name: CallRef,
        goal: NodeIndex,
        call: &ToolCall,
        origin: Origin,
    ) -> Option<NodeIndex> {
        let path = path_of(name.attempt, name.tool_turn, name.index);
        let run = name.attempt.run;
        let action = self.add(run, Some(goal), NodeKind::Action, path, origin)?;
        let node = &mut self.nodes[action];
        node.begin(origin);
        node.description = describe::call(&call.name, &call.arguments);
        node.data.push(("tool_name", call.name.clone()));
        node.data.push(("arguments", call.arguments.clone()));
        Some(action)
    }

    pub(super) fn finish_call(&mut self, finished: &CallFinished, origin: Origin) {
        let status = if finished.is_error {
            NodeStatus::Failed
        } else {
            NodeStatus::Completed
        };
        let outcome = Outcome {
            output: &finished.output,
            reason: &finished.reason,
            status,
            duration_ms: Some(finished.duration_ms),
            rest: finished.whole.as_ref().map_or_else(String::new, |whole| {
                rest_of_result(whole.bytes, &whole.handle)
            }),
        };
        self.end_call(finished.call, &outcome, origin);
    }

    pub(super) fn doubt_call(&mut self, call: CallRef) {
        let action = self.working_call(call).and_then(|call| call.action);
        if let Some(action) = action {
            self.nodes[action].set("outcome", "nobody knows");
        }
    }

    pub(super) fn settle_call(&mut self, settled: &CallSettled, origin: Origin) {
        let (name, settlement) = (settled.call, &settled.settlement);
        let action = self.working_call(name).and_then(|call| call.action);
        if let Some(action) = action {
            let outcome = format!("decided by a person: {}", settlement.verb());
            self.nodes[action].set("outcome", outcome);
        }
        let Some((output, is_error)) = settlement.result(&settled.output) else {
            return;
        };
        let status = match settlement {
            Settlement::Skip { .. } => NodeStatus::Skipped,
            _ if is_error => NodeStatus::Failed,
            _ => NodeStatus::Completed,
        };
        let outcome = Outcome {
            output,
            reason: "",
            status,
            duration_ms: None,
            rest: String::new(),
        };
        self.end_call(name, &outcome, origin);
    }

    fn end_call(&mut self, name: CallRef, outcome: &Outcome<'_>, origin: Origin) {
        let Some(call) = self.working_call(name) else {
            return;
        };
        let action = match call.action {
            Some(action) => action,
            None if outcome.status == NodeStatus::Completed => return,
            // What `step` refused to do has made no goal and no evaluation: show the call.
            None => {
                let (call, goal) = (call.call.clone(), call.goal);
                match self.add_action_at(name, goal, &call, origin) {
                    Some(action) => action,
                    None => return,
                }
            }
        };
        self.nodes[action].end(outcome.status, origin);
        self.nodes[action].duration_ms = outcome.duration_ms;
        let path = path_of(name.attempt, name.tool_turn, name.index);
        let run = name.attempt.run;
        if let Some(result) = self.add(run, Some(action), NodeKind::Result, path, origin) {
            let node = &mut self.nodes[result];
            node.status = outcome.status;
            node.description = describe::result(outcome.output, &outcome.rest);
            node.data.push(("output", outcome.output.to_owned()));
            node.data.push(("rest", outcome.rest.clone()));
            node.data.push(("reason", outcome.reason.to_owned()));
            node.data.retain(|(_, value)| !value.is_empty());
        }
    }

    pub(super) fn working_call(&mut self, name: CallRef) -> Option<&mut WorkingCall> {
        let working = self.working_on(name.attempt)?;
        let is_current = working.tool_turn == name.tool_turn;
        let calls = is_current.then_some(&mut working.calls)?;
        calls.get_mut(name.index as usize)
    }
}

impl Working {
    pub(super) fn goal_in_progress(&self) -> NodeIndex {
        self.focus.unwrap_or(self.goal)
    }

    /// The first node that a reply makes carries what the reply used up.
    pub(super) fn claim(&mut self, node: &mut Node) {
        if let Some((usage, _)) = self.unclaimed.take() {
            node.charge(&usage);
        }
    }
}

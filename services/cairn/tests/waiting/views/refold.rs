//! Views made anew from the watched events, by code that shares nothing with Cairn's own.

use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::NodeKind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) type Events = [(u64, wire::Event)];

/// What the journal alone says of a node.
#[derive(Debug, PartialEq)]
pub(crate) struct Made {
    pub(crate) kind: NodeKind,
    pub(crate) created: i64,
    pub(crate) duration: u64,
    pub(crate) data: Value,
}

/// The nodes of a run in the order in which they came up.
pub(crate) fn nodes(events: &Events) -> Vec<Made> {
    let mut fold = Fold {
        events,
        at: 0,
        made: Vec::new(),
        sub_goals: BTreeMap::new(),
        tools: Vec::new(),
    };
    for (_, event) in events {
        fold.at = event.at_unix_ms;
        fold.take(event.kind.as_ref().expect("a kind"));
    }
    fold.made
}

struct Fold<'a> {
    events: &'a Events,
    at: i64,
    made: Vec<Made>,
    /// Node and begin, by step and index.
    sub_goals: BTreeMap<(u32, u32), (usize, i64)>,
    /// Of the planned steps; without a name for steps of the model.
    tools: Vec<wire::ToolInvocation>,
}

impl Fold<'_> {
    fn add(&mut self, kind: NodeKind, duration: u64, data: &[(&str, &str)]) -> usize {
        let data = data.iter().filter(|(_, value)| !value.is_empty());
        let data: Map<_, _> = data
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        self.made.push(Made {
            kind,
            created: self.at,
            duration,
            data: Value::Object(data),
        });
        self.made.len() - 1
    }

    fn add_action(&mut self, place: Place, tool: &str, arguments: &str) {
        let data = [("tool_name", tool), ("arguments", arguments)];
        let took = call_duration(self.events, place);
        self.add(NodeKind::Action, took, &data);
    }

    fn take(&mut self, kind: &Kind) {
        match kind {
            Kind::PlanApplied(applied) => self.take_plan(applied),
            Kind::ReplyReceived(reply) => self.take_reply(reply),
            Kind::StepStarted(started) if started.tool_effect != 0 => {
                let step = step_of(started.attempt);
                let tool = self.tools[step as usize - 1].clone();
                self.add_action((step, 0, 0), &tool.name, &tool.arguments_json);
            }
            Kind::SubGoalAdded(added) => {
                let data = [("description", added.text.as_str())];
                let node = self.add(NodeKind::Goal, 0, &data);
                let name = (step_of(added.attempt), added.index);
                self.sub_goals.insert(name, (node, self.at));
            }
            Kind::SubGoalFocused(focused) => {
                let name = (step_of(focused.attempt), focused.index);
                self.sub_goals.get_mut(&name).expect("a sub-goal").1 = self.at;
            }
            Kind::SubGoalCompleted(completed) => {
                self.add(NodeKind::Evaluation, 0, &[]);
                let (node, began) = self.sub_goals[&(step_of(completed.attempt), completed.index)];
                self.made[node].duration = ms_between(began, self.at);
            }
            Kind::CallFinished(finished) if call_of(self.events, finished).0 != "step" => {
                let (output, reason) = (finished.output.as_str(), finished.reason.as_str());
                let data = [("output", output), ("reason", reason)];
                self.add(NodeKind::Result, 0, &data);
            }
            Kind::StepCompleted(completed) => {
                let step = step_of(completed.attempt);
                if self.tools[step as usize - 1].name.is_empty() {
                    self.add(NodeKind::Evaluation, 0, &[]);
                }
            }
            Kind::StepFailed(failed) => {
                let failure = failed.failure.clone().unwrap_or_default();
                let goal = &mut self.made[step_of(failed.attempt) as usize - 1];
                goal.data["error"] = json!(failure.message);
                goal.data["reason"] = json!(failure.reason);
            }
            Kind::RunCompleted(completed) => {
                let data = [("content", completed.answer.as_str())];
                self.add(NodeKind::Response, 0, &data);
            }
            _ => {}
        }
    }

    fn take_plan(&mut self, applied: &wire::PlanApplied) {
        let steps = applied.plan.iter().flat_map(|plan| &plan.steps);
        for (step, number) in steps.zip(1..) {
            let tool = step.tool.clone().unwrap_or_default();
            let data = [
                ("title", step.title.as_str()),
                ("description", &step.description),
                ("tool_name", &tool.name),
                ("arguments", &tool.arguments_json),
                ("depends_on", &step.depends_on.join(", ")),
            ];
            let took = step_duration(self.events, number);
            self.add(NodeKind::Goal, took, &data);
            self.tools.push(tool);
        }
    }

    fn take_reply(&mut self, reply: &wire::ReplyReceived) {
        if reply.calls.is_empty() || !reply.text.trim().is_empty() {
            let data = [("content", reply.text.as_str())];
            self.add(NodeKind::Thought, reply.duration_ms, &data);
        }
        let step = step_of(reply.attempt);
        for (call, index) in reply.calls.iter().zip(0..) {
            let call = call.call.clone().unwrap_or_default();
            if call.name != "step" {
                let place = (step, reply.tool_turn, index);
                self.add_action(place, &call.name, &call.arguments_json);
            }
        }
    }
}

fn step_of(attempt: Option<wire::AttemptRef>) -> u32 {
    attempt.expect("an attempt").step
}

fn ms_between(from: i64, to: i64) -> u64 {
    u64::try_from(to - from).expect("later")
}

/// From the begin of a step to its end; 0 if it did not begin.
fn step_duration(events: &Events, step: u32) -> u64 {
    let is_of = |attempt: Option<wire::AttemptRef>| attempt.is_some_and(|it| it.step == step);
    let at = |is: &dyn Fn(&Kind) -> bool| {
        let mut kinds = events.iter();
        let found = kinds.find(|(_, event)| event.kind.as_ref().is_some_and(is));
        found.map(|(_, event)| event.at_unix_ms)
    };
    let began = at(&|kind| matches!(kind, Kind::StepStarted(started) if is_of(started.attempt)));
    let ended = at(&|kind| {
        matches!(kind, Kind::StepCompleted(ended) if is_of(ended.attempt))
            || matches!(kind, Kind::StepFailed(ended) if is_of(ended.attempt))
    });
    match (began, ended) {
        (Some(began), Some(ended)) => ms_between(began, ended),
        _ => 0,
    }
}

type Place = (u32, u32, u32);

fn place_of(call: Option<wire::CallRef>) -> Place {
    let call = call.expect("a call");
    let step = call.attempt.expect("an attempt").step;
    (step, call.tool_turn, call.index)
}

fn call_duration(events: &Events, place: Place) -> u64 {
    let mut found = events.iter().filter_map(|(_, event)| match &event.kind {
        Some(Kind::CallFinished(finished)) if place_of(finished.call) == place => {
            Some(finished.duration_ms)
        }
        _ => None,
    });
    found.next().expect("a result")
}

/// The tool of a finished call and what it was given.
pub(crate) fn call_of(events: &Events, finished: &wire::CallFinished) -> (String, String) {
    let (step, turn, index) = place_of(finished.call);
    let asked = events.iter().find_map(|(_, event)| match &event.kind {
        Some(Kind::ReplyReceived(reply))
            if reply.attempt.is_some_and(|it| it.step == step) && reply.tool_turn == turn =>
        {
            reply.calls[index as usize].call.clone()
        }
        _ => None,
    });
    let planned = events.iter().find_map(|(_, event)| match &event.kind {
        Some(Kind::PlanApplied(applied)) => {
            applied.plan.as_ref()?.steps[step as usize - 1].tool.clone()
        }
        _ => None,
    });
    let asked = asked.map(|call| (call.name, call.arguments_json));
    let planned = planned.map(|tool| (tool.name, tool.arguments_json));
    asked.or(planned).expect("somebody asked for it")
}

/// The sum of what planning and all replies of a run used up, and of the replies of one step.
pub(crate) fn usage(events: &Events, step: Option<u32>) -> wire::Usage {
    let mut sum = wire::Usage::default();
    for (_, event) in events {
        let usage = match &event.kind {
            Some(Kind::PlanApplied(applied)) if step.is_none() => applied.usage,
            Some(Kind::ReplyReceived(reply)) => reply.usage.filter(|_| {
                step.is_none_or(|step| reply.attempt.is_some_and(|it| it.step == step))
            }),
            _ => None,
        };
        let usage = usage.unwrap_or_default();
        sum.input_tokens += usage.input_tokens;
        sum.output_tokens += usage.output_tokens;
        sum.cost_nano_usd += usage.cost_nano_usd;
        sum.model_calls += usage.model_calls;
    }
    sum
}

//! The agent state after each event, made anew from the watched events.

use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::op::Op;
use cairn_proto::event::part::Part;
use serde_json::{Value, json};

type Numbered = (u64, wire::Event);

/// The state after each event, in order.
pub(crate) fn after_each(events: &[Numbered]) -> Vec<Value> {
    let mut state = json!({
        "session": {"title": "", "seq": 0, "memory": {}},
        "run": null, "agent": null, "requirement": "", "revision": null, "phase": "Idle",
        "steps": [], "current_step_chat_history": [], "scratchpad": "", "pending": [],
        "usage": null, "answer": null,
    });
    let mut notes: Vec<(u32, &str)> = Vec::new();
    let mut states = Vec::new();
    for (at, (seq, event)) in events.iter().enumerate() {
        state["session"]["seq"] = json!(seq);
        let kind = event.kind.as_ref().expect("a kind");
        of_run(&mut state, kind);
        of_step(&mut state, kind);
        if let Kind::ScratchpadWritten(written) = kind {
            let step = written.attempt.expect("an attempt").step;
            notes.retain(|(of, _)| !written.replaces || *of != step);
            notes.push((step, &written.text));
        }
        if matches!(kind, Kind::RunStarted(_)) {
            notes.clear();
        }
        let scratchpad: Vec<&str> = notes.iter().map(|(_, text)| *text).collect();
        state["scratchpad"] = json!(scratchpad.join("\n"));
        state["current_step_chat_history"] = chat(&events[..=at], &state);
        if state["phase"].get("Executing").is_some() {
            let running = running(&state);
            let step = running.first().copied().or_else(|| next(&state));
            state["phase"] = json!({"Executing": {"step": step, "running": running}});
        }
        states.push(state.clone());
    }
    states
}

fn of_run(state: &mut Value, kind: &Kind) {
    match kind {
        Kind::SessionCreated(created) => state["session"]["title"] = json!(created.title),
        Kind::MemorySet(set) => state["session"]["memory"][&set.key] = json!(set.value),
        Kind::RunStarted(started) => {
            state["run"] = json!(started.run);
            if state["session"]["title"] == "" {
                state["session"]["title"] = json!(started.goal);
            }
            state["requirement"] = json!(started.goal);
            state["revision"] = Value::Null;
            state["phase"] = json!("Planning");
            state["steps"] = json!([]);
            state["answer"] = Value::Null;
            state["usage"] = json!({
                "input_tokens": 0, "output_tokens": 0, "cost_nano_usd": 0, "model_calls": 0,
                "tool_turns": 0, "tool_turns_allowed": started.limits.expect("limits").max_turns,
                "tool_calls": 0,
                "allowed": {
                    "turns": started.limits.expect("limits").max_turns,
                    "tokens": null, "cost_nano_usd": null, "active_ms": null, "calls": null,
                },
            });
        }
        Kind::PlanApplied(applied) => {
            state["revision"] = json!(applied.revision);
            state["phase"] = json!({"Executing": {"step": null, "running": []}});
            charge(state, applied.usage);
            let plan = applied.plan.clone().unwrap_or_default();
            let is_chain = plan.order == i32::from(wire::Order::Chain);
            let id = |step: &wire::PlanStep, number: usize| match step.id.as_str() {
                "" => number.to_string(),
                id => id.to_owned(),
            };
            let mut steps = Vec::new();
            for (step, number) in plan.steps.iter().zip(1..) {
                let depends_on = match is_chain && number > 1 {
                    true => vec![id(&plan.steps[number - 2], number - 1)],
                    false => step.depends_on.clone(),
                };
                steps.push(json!({
                    "step": number, "id": id(step, number), "title": step.title,
                    "description": step.description, "status": "Pending", "summary": null,
                    "error": null, "reason": null, "attempts": 0, "depends_on": depends_on,
                }));
            }
            state["steps"] = json!(steps);
        }
        Kind::RunCompleted(completed) => {
            state["phase"] = json!("Completed");
            state["answer"] = json!(completed.answer);
        }
        Kind::RunFailed(failed) => {
            state["phase"] = json!({"Failed": failure(failed.failure.as_ref())});
        }
        _ => {}
    }
}

fn of_step(state: &mut Value, kind: &Kind) {
    let mut set = |attempt: Option<wire::AttemptRef>, name: &str, value: Value| {
        let step = attempt.expect("an attempt").step as usize;
        state["steps"][step - 1][name] = value;
    };
    match kind {
        Kind::StepStarted(started) => {
            set(started.attempt, "status", json!("Running"));
            set(started.attempt, "attempts", json!(1));
            add_calls(state, u64::from(started.tool_effect != 0));
        }
        Kind::StepCompleted(ended) => {
            set(ended.attempt, "status", json!("Completed"));
            set(ended.attempt, "summary", json!(ended.summary));
        }
        Kind::StepFailed(ended) => {
            set(ended.attempt, "status", json!("Failed"));
            set(ended.attempt, "error", failure(ended.failure.as_ref()));
        }
        Kind::ReplyReceived(reply) => {
            charge(state, reply.usage);
            let turns = state["usage"]["tool_turns"].as_u64().expect("a number");
            state["usage"]["tool_turns"] = json!(turns + 1);
            let of_tools = reply.calls.iter();
            let of_tools = of_tools.filter(|call| call.effect != i32::from(wire::Effect::State));
            add_calls(state, of_tools.count() as u64);
        }
        _ => {}
    }
}

fn add_calls(state: &mut Value, more: u64) {
    let calls = state["usage"]["tool_calls"].as_u64().expect("a number");
    state["usage"]["tool_calls"] = json!(calls + more);
}

fn charge(state: &mut Value, usage: Option<wire::Usage>) {
    let usage = usage.unwrap_or_default();
    let parts = [
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("cost_nano_usd", usage.cost_nano_usd),
        ("model_calls", usage.model_calls.into()),
    ];
    for (name, more) in parts {
        let before = state["usage"][name].as_u64().expect("a number");
        state["usage"][name] = json!(before + more);
    }
}

fn failure(failure: Option<&wire::Failure>) -> Value {
    let failure = failure.expect("a failure");
    assert_eq!(failure.kind, i32::from(wire::FailureKind::Tool));
    json!({"kind": "tool", "reason": failure.reason, "message": failure.message})
}

fn running(state: &Value) -> Vec<u64> {
    let steps = state["steps"].as_array().expect("steps").iter();
    let steps = steps.filter(|step| step["status"] == "Running");
    steps.filter_map(|step| step["step"].as_u64()).collect()
}

/// The step that begins next; none after a failure.
fn next(state: &Value) -> Option<u64> {
    let steps = state["steps"].as_array().expect("steps");
    let is = |step: &Value, status: &str| step["status"] == status;
    if steps.iter().any(|step| is(step, "Failed")) {
        return None;
    }
    let is_done = |id: &Value| {
        let mut others = steps.iter();
        others.any(|step| step["id"] == *id && is(step, "Completed"))
    };
    let is_ready = |step: &&Value| {
        let mut needed = step["depends_on"].as_array().expect("ids").iter();
        is(step, "Pending") && needed.all(is_done)
    };
    steps.iter().find(is_ready)?["step"].as_u64()
}

/// What was said and answered in the running step since it began. Here one runs at a time.
fn chat(events: &[Numbered], state: &Value) -> Value {
    let Some(&step) = running(state).first() else {
        return json!([]);
    };
    let begins = |kind: &Kind| matches!(kind, Kind::StepStarted(started) if u64::from(started.attempt.expect("an attempt").step) == step);
    let begin = events
        .iter()
        .rposition(|(_, event)| event.kind.as_ref().is_some_and(begins));
    let begin = begin.expect("its begin");
    let of_run = events
        .iter()
        .rposition(|(_, event)| matches!(event.kind, Some(Kind::RunStarted(_))));
    let of_run = &events[of_run.expect("its run")..];
    let message =
        |role: &str, text: &str| json!({"step": step, "attempt": 1, "role": role, "text": text});
    let mut turns: Vec<Vec<Value>> = Vec::new();
    for (_, event) in &events[begin..] {
        match event.kind.as_ref().expect("a kind") {
            Kind::StepStarted(started) if started.tool_effect != 0 => {
                let plan = of_run.iter().find_map(|(_, event)| match &event.kind {
                    Some(Kind::PlanApplied(applied)) => applied.plan.clone(),
                    _ => None,
                });
                let tool = plan.expect("a plan").steps[step as usize - 1].tool.clone();
                let tool = tool.expect("a tool");
                let mut said = message("assistant", "");
                said["tool_calls"] =
                    json!([{"id": "call-0", "name": tool.name, "arguments": tool.arguments_json}]);
                turns.push(vec![said]);
            }
            Kind::ReplyReceived(reply) => {
                let mut said = message("assistant", &reply.text);
                let calls = reply.calls.iter().filter_map(|call| call.call.as_ref());
                let calls: Vec<_> = calls.map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments_json})).collect();
                if !calls.is_empty() {
                    said["tool_calls"] = json!(calls);
                }
                turns.push(vec![said]);
            }
            Kind::CallFinished(finished) => {
                let mut result = message("tool", &finished.output);
                let index = finished.call.expect("a call").index as usize;
                // A reminder may stand before the last results.
                let asks = |turn: &&mut Vec<Value>| turn[0].get("tool_calls").is_some();
                let turn = turns.iter_mut().rfind(asks).expect("a turn");
                result["tool_call_id"] = turn[0]["tool_calls"][index]["id"].clone();
                result["is_error"] = json!(finished.is_error);
                turn.push(result);
            }
            Kind::ContextChanged(changed) => {
                let additions = additions(changed);
                turns.extend(additions.map(|text| vec![message("user", &text)]));
            }
            _ => {}
        }
    }
    // Results stand in the order in which they were asked for.
    for turn in &mut turns {
        turn[1..].sort_by_key(|message| message["tool_call_id"].to_string());
    }
    json!(turns.concat())
}

/// What Cairn adds for the model: changes of session memory, and requests to continue.
fn additions(changed: &wire::ContextChanged) -> impl Iterator<Item = String> {
    let ops = changed.ops.iter().filter_map(|op| op.op.as_ref());
    ops.filter_map(|op| match op {
        Op::Remind(reminder) => Some(reminder.text.clone()),
        Op::Append(added) => match added.parts.first()?.part.as_ref()? {
            Part::Text(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    })
}

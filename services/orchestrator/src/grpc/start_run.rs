//! Starts a run, in a session that is there or in a new one.

use super::commands::{contradiction, invalid};
use super::{Answer, key_of};
use crate::dispatch::{EVERY_AGENT, SEPARATOR};
use crate::key::derived_trace;
use crate::requests::{Admission, Requests, admit, start_in_new_session, submit_if};
use cairn_agents::is_name;
use cairn_agents::resolve::OF_WORKSPACE;
use cairn_engine::command::StartRun;
use cairn_engine::event::{Budget, EventKind};
use cairn_engine::limits::{MAX_CONVERSATIONS, MAX_EXTERNAL_ID, MAX_GOAL, MAX_PROMPT_NOTE};
use cairn_engine::plan::{Plan, PlanDraft, PlanError};
use cairn_proto::orchestrator as pb;
use cairn_rpc::{
    RpcError, TraceParent, check_request_id, check_required_text, check_text, principal,
};
use std::sync::Arc;
use tonic::{Request, Response};

pub(super) const MAX_MODEL_NAME: usize = 128;

pub(super) async fn start_run(
    requests: &Arc<Requests>,
    request: Request<pb::StartRunRequest>,
) -> Answer<pb::StartRunResponse> {
    let principal = principal(&request)?.clone();
    let named = !request.get_ref().session.is_empty();
    let key = named
        .then(|| key_of(&request, &request.get_ref().session))
        .transpose()?;
    let callers_trace = TraceParent::of(&request);
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let run = asked.run.ok_or_else(|| RpcError::missing("run"))?;
    let mut run = StartRun::try_from(run).map_err(|error| invalid("run", &error))?;
    check_run(&run)?;
    check_time_to_live("time_to_live_ms", asked.time_to_live_ms)?;
    if named && asked.time_to_live_ms > 0 {
        let problem = "is set, and session names one that is there";
        let error = RpcError::invalid("time_to_live_ms", problem);
        return Err(error.allowed("0, or a new session").into());
    }
    let own_trace = || derived_trace(principal.namespace(), &asked.session, &asked.request_id);
    let trace = named_trace("run.trace_parent", &run.trace_parent)?.or(callers_trace);
    run.trace_parent = trace.unwrap_or_else(own_trace).to_string();
    let steps = run.plan.iter().flat_map(|plan| &plan.steps);
    let tools = steps.map(|step| Some(step.tool.as_ref()?.name.as_str()));
    let admission = match unknown_tool(requests, "run.plan", tools) {
        Some(fault) => Admission::OnlyRepeats(fault),
        None => admit(requests, key.as_ref()).await,
    };
    let (id, command) = (asked.request_id, run.into());
    let (key, answer) = match key {
        Some(key) => {
            let answer = submit_if(admission, requests, &principal, &key, &id, command).await?;
            (key, answer)
        }
        None => {
            let ttl = asked.time_to_live_ms;
            start_in_new_session(requests, admission, &principal, id, ttl, command).await?
        }
    };
    let EventKind::RunStarted(started) = answer.event else {
        return Err(contradiction().into());
    };
    Ok(Response::new(pb::StartRunResponse {
        session: key.id.to_string(),
        run: started.run,
        seq: answer.seq,
    }))
}

/// Whether an agent may have the name. An empty one stands for the default agent.
pub(super) fn check_agent(field: &str, name: &str) -> Result<(), RpcError> {
    let own = name.strip_prefix(OF_WORKSPACE).unwrap_or(name);
    if name.is_empty() || is_name(own) {
        return Ok(());
    }
    let allowed = "the name of an agent, \"workspace:NAME\", or nothing for the default agent";
    let error = RpcError::invalid(field, "is no name of an agent");
    Err(error.allowed(allowed).reason("ID_INVALID"))
}

/// Whether a session may be made to stay so long.
pub(super) fn check_time_to_live(field: &str, ms: u64) -> Result<(), RpcError> {
    // A second to ten years.
    if ms == 0 || (1000..=315_360_000_000).contains(&ms) {
        return Ok(());
    }
    let error = RpcError::invalid(field, format!("is {ms}"));
    Err(error.allowed("0, or 1000 to 315360000000"))
}

/// The trace that the request itself names.
pub(super) fn named_trace(field: &str, text: &str) -> Result<Option<TraceParent>, RpcError> {
    let named = Some(text).filter(|named| !named.is_empty());
    let named = named.map(str::parse::<TraceParent>).transpose();
    named.map_err(|error| RpcError::invalid(field, error.to_string()))
}

fn check_run(run: &StartRun) -> Result<(), RpcError> {
    match &run.plan {
        Some(plan) => {
            check_text("run.goal", &run.goal, MAX_GOAL)?;
            Plan::accept(plan).map_err(|fault| bad_plan("run.plan", &fault))?;
            check_steps("run.plan", plan)?;
        }
        None => check_required_text("run.goal", &run.goal, MAX_GOAL)?,
    }
    check_text("run.model", &run.model, MAX_MODEL_NAME)?;
    check_text("run.external_id", &run.external_id, MAX_EXTERNAL_ID)?;
    check_text("run.note", &run.note, MAX_PROMPT_NOTE)?;
    check_agent("run.agent", &run.agent)?;
    let limits = run.limits;
    at_most("run.limits.max_tool_turns", limits.max_tool_turns, 1_000)?;
    at_most(
        "run.limits.max_parallel_steps",
        limits.max_parallel_steps,
        MAX_CONVERSATIONS.into(),
    )?;
    at_most(
        "run.limits.max_own_revisions",
        limits.max_own_revisions,
        100,
    )?;
    for budget in Budget::ALL {
        let (name, limit) = match budget {
            Budget::Turns => ("max_turns", 100_000),
            Budget::Tokens => ("max_tokens", 1_000_000_000_000),
            // A million dollars.
            Budget::Cost => ("max_cost_nano_usd", 1_000_000_000_000_000),
            // A year.
            Budget::Time => ("max_active_ms", 31_536_000_000),
            Budget::Calls => ("max_calls", 1_000_000),
            // No field of its own: max_tool_turns is its limit.
            Budget::ToolTurns => continue,
        };
        at_most(&format!("run.limits.{name}"), limits.budgets[budget], limit)?;
    }
    Ok(())
}

/// The error for a plan that cannot be carried out; `at` is its path in the request.
pub(super) fn bad_plan(at: &str, fault: &PlanError) -> RpcError {
    let located = fault.located();
    let field = match (located.step, located.field) {
        (None, _) => at.to_owned(),
        (Some(_), "tool") => format!("{at}.steps.tool.name"),
        (Some(_), "arguments") => format!("{at}.steps.tool.arguments_json"),
        (Some(_), _) => format!("{at}.{}", located.path()),
    };
    let problem = format!("is wrong: {}", located.problem);
    RpcError::invalid(field, problem).reason("BAD_PLAN")
}

/// The error for a plan that names a tool that is not there, by the tools of its steps. A server may bring its
/// tools later, and a tool that rules deny is refused by them. `at` is the path of the plan in its request.
///
/// The tool may have been there when the request came first: it is refused unless it is a repeat.
pub(super) fn unknown_tool<'a>(
    requests: &Requests,
    at: &str,
    tools: impl Iterator<Item = Option<&'a str>>,
) -> Option<RpcError> {
    let catalogue = requests.deps().dispatch.catalogue();
    let is_there = |name: &str| {
        catalogue.facts.contains_key(name)
            || name.contains(SEPARATOR)
            || catalogue.rules.always_deny(name, EVERY_AGENT)
    };
    let mut named = (0..).zip(tools);
    let (step, tool) =
        named.find_map(|(step, tool)| Some((step, tool.filter(|it| !is_there(it))?)))?;
    // Without a catalogue nothing is known.
    if catalogue.facts.is_empty() {
        return None;
    }
    let available = catalogue.facts.keys().map(String::as_str);
    let fault = PlanError::UnknownTool {
        step,
        tool: tool.to_owned(),
        available: available.collect::<Vec<_>>().join(", "),
    };
    Some(bad_plan(at, &fault))
}

/// `at` is the path of the plan in its request.
pub(super) fn check_steps(at: &str, plan: &PlanDraft) -> Result<(), RpcError> {
    for (i, step) in plan.steps.iter().enumerate() {
        let field = |name: &str| format!("{at}.steps[{i}].{name}");
        check_text(&field("id"), &step.id, 128)?;
        check_text(&field("title"), &step.title, 1024)?;
        check_text(&field("description"), &step.description, MAX_GOAL)?;
        check_text(&field("external_id"), &step.external_id, MAX_EXTERNAL_ID)?;
        check_text(&field("note"), &step.note, MAX_PROMPT_NOTE)?;
        for (j, capability) in step.capabilities.iter().enumerate() {
            check_text(&field(&format!("capabilities[{j}]")), capability, 128)?;
        }
        if let Some(tool) = &step.tool {
            check_required_text(&field("tool.name"), &tool.name, 64)?;
            check_text(&field("tool.arguments_json"), &tool.arguments, 256 * 1024)?;
        }
    }
    Ok(())
}

fn at_most(field: &str, value: impl Into<u64>, limit: u64) -> Result<(), RpcError> {
    let value = value.into();
    if value <= limit {
        return Ok(());
    }
    let allowed = format!("0 (the default) to {limit}");
    Err(RpcError::invalid(field, format!("is {value}")).allowed(allowed))
}

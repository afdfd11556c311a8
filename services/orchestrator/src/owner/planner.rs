//! What the planner is asked, and what it answers in the words of the engine.

use crate::key::SessionKey;
use cairn_engine::context;
use cairn_engine::decide::{CODE_GENERATION, Input, ToolList};
use cairn_engine::event::Budget;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_engine::pool::PoolView;
use cairn_engine::revise::draft_of;
use cairn_engine::session::Run;
use cairn_proto::event as wire;
use cairn_proto::planner::make_plan_request::Earlier;
use cairn_proto::planner::{MakePlanRequest, MakePlanResponse};

/// What the planner is asked beside the run itself.
pub(super) struct Asked {
    /// The request for another plan; none for the first plan of the run.
    pub(super) request: Option<u64>,
    /// The tools that steps may name.
    pub(super) tools: Vec<String>,
    /// The capabilities that steps may name.
    pub(super) capabilities: Vec<String>,
}

/// The question to the planner: for the first plan, or for another one because of a request.
pub(super) fn question(
    key: &SessionKey,
    run: &Run,
    prompt_layers: Vec<String>,
    asked: Asked,
) -> MakePlanRequest {
    let revisions = &run.revisions;
    let request = asked
        .request
        .and_then(|request| revisions.requests.get(&request));
    let earlier = request.map(|request| {
        let plan = run.plan.as_ref();
        // One that a person denied is what the next is made of.
        let reviewed = || {
            let proposal = revisions.proposals.get(&revisions.review?);
            proposal.map(|it| it.plan.clone())
        };
        Earlier {
            plan: plan.map(draft_of).or_else(reviewed).map(Into::into),
            results: plan.map(context::results).unwrap_or_default(),
            feedback: request.feedback.clone(),
        }
    });
    MakePlanRequest {
        session: key.id.to_string(),
        run: run.number,
        goal: run.goal.clone(),
        prompt_layers,
        model: run.model.clone(),
        tools: asked.tools,
        capabilities: asked.capabilities,
        earlier,
        limits_cost: run.spent.allowed[Budget::Cost].is_some(),
    }
}

/// The capabilities that steps of a run may name. One is left out if a tool of it is there, but not on offer to the
/// run: a step of a model that needs it would not have the tool. A tool that is not there at all is no reason, as a
/// registered resource can have the capability.
pub(super) fn capabilities(view: &PoolView, all: &ToolList, offered: &ToolList) -> Vec<String> {
    // It is on offer to models, and not to plans.
    let is_withheld = |tool: &String| {
        tool != CODE_GENERATION && all.contains_key(tool) && !offered.contains_key(tool)
    };
    let mut names = view.names();
    names.retain(|name| {
        let row = view.table.iter().find(|row| row.name == *name);
        row.is_none_or(|row| !row.tools.iter().any(is_withheld))
    });
    names
}

/// What the planner's prompt says of these capabilities.
pub(super) fn capability_words(view: &PoolView, names: &[String]) -> String {
    let mut text = format!(
        "A step may name the capabilities that it needs in \"capabilities\", by these names: {}. A capability says \
         which resources can carry the step out; it gives the step no tool that this run may not use.",
        names.join(", ")
    );
    let rows = view.table.iter().filter(|row| names.contains(&row.name));
    let rows = rows.map(|row| format!("\n- {}: {}", row.name, row.tools.join(", ")));
    let rows: Vec<String> = rows.collect();
    if !rows.is_empty() {
        text.push_str(" An executor has one of these if it can use all tools of it:\n");
        text.push_str(&rows.concat());
    }
    text
}

/// What the answer means for the engine.
pub(super) fn read_plan(work: Work, answer: MakePlanResponse) -> Option<Input> {
    let other = |message: String| Failure::new(FailureKind::Other, "BadAnswer", message);
    let outcome = match (answer.plan, answer.failure) {
        (_, Some(failure)) => Err(failure.into()),
        (Some(plan), None) => PlanDraft::try_from(plan).map_err(|error| other(error.to_string())),
        (None, None) => Err(other(
            "the planner gave neither a plan nor a failure".to_owned(),
        )),
    };
    let usage: wire::Usage = answer.usage.unwrap_or_default();
    planning_ended(work, outcome, usage.into(), answer.duration_ms)
}

/// None for work that is no planning.
pub(super) fn planning_ended(
    work: Work,
    outcome: Result<PlanDraft, Failure>,
    usage: Usage,
    duration_ms: u64,
) -> Option<Input> {
    match work {
        Work::Plan { run, request } => Some(Input::Planned {
            run,
            request,
            outcome,
            usage,
            duration_ms,
        }),
        Work::HandleCommand
        | Work::RunStep(_)
        | Work::Answer(_)
        | Work::Preview(_)
        | Work::AskHooks(_)
        | Work::Wake { .. } => None,
    }
}

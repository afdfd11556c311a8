//! The agent context: what a model reads of the pool and its task.

use super::present;
use crate::grpc::Answer;
use crate::grpc::present::{ms, run_of};
use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_engine::pool::{AgentContext, PoolView, TaskContext};
use cairn_engine::session::{Run, Session, Step, StepNo};
use cairn_proto::api as pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{ErrorKind, RpcError, check_session_id, principal};
use tonic::{Request, Response};

pub(super) async fn get(
    requests: &Requests,
    request: Request<pb::GetAgentContextRequest>,
) -> Answer<pb::GetAgentContextResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    let dispatch = &requests.deps().dispatch;
    dispatch.known().await;
    let pool = dispatch.pool();
    let work = match asked.session.as_str() {
        "" => {
            check_without_session(&asked)?;
            Work::default()
        }
        session => {
            check_session_id("session", session)?;
            let key = SessionKey::new(&namespace, session);
            let viewed = requests.store().view(&key).await?;
            Work::of(&viewed.session, asked.run, asked.step, &pool.view)?
        }
    };
    let now = requests.store().clock.now();
    let context = AgentContext::of(&pool.view, now, work.task, work.note, work.allotted);
    let text = context.text();
    Ok(Response::new(pb::GetAgentContextResponse {
        context: Some(message(context)),
        text,
    }))
}

/// # Errors
/// InvalidArgument if a run or a step is named, of no session.
fn check_without_session(asked: &pb::GetAgentContextRequest) -> Result<(), RpcError> {
    for (field, number) in [("run", asked.run), ("step", asked.step)] {
        if number > 0 {
            let error = RpcError::invalid(field, format!("is {number}, and no session is named"));
            return Err(error.allowed("0, or any with a session"));
        }
    }
    Ok(())
}

/// What a context has beside the pool.
#[derive(Debug, Default)]
struct Work {
    task: Option<TaskContext>,
    note: Option<String>,
    allotted: Vec<String>,
}

impl Work {
    /// A step of a run, or without a step the run alone; 0 for the latest run.
    ///
    /// # Errors
    /// NotFound if the session has no such run, or the run no such step.
    fn of(session: &Session, run: u32, step: u32, view: &PoolView) -> Result<Self, RpcError> {
        let (run, step) = match (run, step) {
            // A session without a run has a context without a task.
            (0, 0) => (session.runs.last(), None),
            (_, 0) => (session.run(run_of(session, run)?.number), None),
            (_, number) => {
                let summary = run_of(session, run)?;
                let plan = summary.plan;
                let found = plan.and_then(|plan| plan.step(StepNo::new(number)));
                let found = found.ok_or_else(|| no_such_step(summary.number, number))?;
                (session.run(summary.number), Some((number, found)))
            }
        };
        Ok(match step {
            // The context takes a blank note for none.
            None => Self {
                note: run.map(|run| run.note.clone()),
                ..Self::default()
            },
            Some((number, step)) => Self {
                note: step.prompt_note(run),
                task: Some(step.task(StepNo::new(number), run)),
                allotted: allotted(session, run, step, view),
            },
        })
    }
}

fn no_such_step(run: u32, step: u32) -> RpcError {
    let message = format!("run {run} has no step {step}");
    RpcError::new(ErrorKind::NotFound, message).reason("NO_SUCH_STEP")
}

/// The resources that carry out the step, or would if an attempt began now.
fn allotted(session: &Session, run: Option<&Run>, step: &Step, view: &PoolView) -> Vec<String> {
    let placed = &step.placing.resources;
    if step.running().is_some() && !placed.is_empty() {
        return placed.clone();
    }
    let need = session.need_of_step(run.map_or(0, |run| run.number), Some(step));
    view.candidate(&need).unwrap_or_default()
}

fn message(context: AgentContext) -> pb::AgentContext {
    let available = context.capabilities.iter().map(|row| row.name.clone());
    let resources = context.capabilities.iter().map(|row| {
        let ids = present::ids(&row.available_ids);
        (row.name.clone(), pb::ResourceIds { ids })
    });
    pb::AgentContext {
        time: Some(timestamp(ms(context.time_ms))),
        pool: Some(present::summary(context.pool)),
        available_capabilities: available.collect(),
        capability_to_resources: resources.collect(),
        task: context.task.map(|task| pb::AgentTask {
            id: task.id,
            description: task.description,
            required_capabilities: task.required_capabilities,
            external_id: task.external_id,
        }),
        orchestrator_note: context.note,
        allotted_resources: context.allotted,
    }
}

//! What the planner is asked, and what it answers in the words of the engine.

use crate::key::SessionKey;
use crate::store::for_namespace;
use cairn_engine::context;
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_engine::revise::draft_of;
use cairn_engine::session::Run;
use cairn_proto::event as wire;
use cairn_proto::planner::planner_service_client::PlannerServiceClient;
use cairn_proto::planner::{MakePlanRequest, MakePlanResponse, RevisePlanRequest};
use cairn_rpc::{Link, Namespace, TraceParent};
use tonic::{Request, Response, Status};

/// A question to the planner.
#[derive(Debug)]
pub(super) enum Question {
    /// For the first plan.
    Make(MakePlanRequest),
    /// For another one.
    Revise(RevisePlanRequest),
}

impl Question {
    pub(super) fn new(
        key: &SessionKey,
        run: &Run,
        prompt_layers: Vec<String>,
        tools: Vec<String>,
        request: Option<u64>,
    ) -> Self {
        let session = key.id.to_string();
        let (goal, model) = (run.goal.clone(), run.model.clone());
        let requests = &run.revisions.requests;
        let Some(request) = request.and_then(|request| requests.get(&request)) else {
            return Self::Make(MakePlanRequest {
                session,
                run: run.number,
                goal,
                prompt_layers,
                model,
                tools,
            });
        };
        let plan = run.plan.as_ref();
        // One that a person denied is what the next is made of.
        let proposals = &run.revisions.proposals;
        let reviewed = || {
            proposals
                .get(&run.revisions.review?)
                .map(|it| it.plan.clone())
        };
        let draft = plan.map(draft_of).or_else(reviewed);
        Self::Revise(RevisePlanRequest {
            session,
            run: run.number,
            goal,
            prompt_layers,
            model,
            plan: draft.map(Into::into),
            results: plan.map(context::results).unwrap_or_default(),
            feedback: request.feedback.clone(),
            tools,
        })
    }

    /// May be asked again, at the price of another model call.
    pub(super) async fn ask(
        self,
        mut planner: PlannerServiceClient<Link>,
        namespace: &Namespace,
        trace: Option<TraceParent>,
    ) -> Result<MakePlanResponse, Status> {
        match self {
            Self::Make(request) => {
                let request = addressed(request, namespace, trace);
                planner.make_plan(request).await.map(Response::into_inner)
            }
            Self::Revise(request) => {
                let request = addressed(request, namespace, trace);
                let answer = planner.revise_plan(request).await?.into_inner();
                Ok(MakePlanResponse {
                    plan: answer.plan,
                    failure: answer.failure,
                    usage: answer.usage,
                    duration_ms: answer.duration_ms,
                })
            }
        }
    }
}

fn addressed<T>(request: T, namespace: &Namespace, trace: Option<TraceParent>) -> Request<T> {
    let mut request = for_namespace(namespace, request);
    if let Some(trace) = trace {
        trace.set_on(&mut request);
    }
    request
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
        Work::HandleCommand | Work::RunStep(_) | Work::Wake { .. } => None,
    }
}

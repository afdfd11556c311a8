//! The service as the contract has it.

use crate::config::Config;
use crate::messages::{ask_for_plan, ask_for_revision};
use crate::parser::PlanParser;
use crate::plan::{Planned, make_plan};
use cairn_engine::message::{Message, Usage};
use cairn_engine::plan::{Plan, PlanDraft};
use cairn_model::ModelRegistry;
use cairn_model::prompt::PLANNING;
use cairn_proto::planner::planner_service_server::PlannerService;
use cairn_proto::planner::{
    MakePlanRequest, MakePlanResponse, RevisePlanRequest, RevisePlanResponse,
};
use cairn_rpc::trace::TARGET;
use cairn_rpc::{RpcError, TraceParent};
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The planner: asks a model for plans.
#[derive(Debug)]
pub struct Planner {
    config: Config,
    models: Arc<ModelRegistry>,
    parser: Arc<dyn PlanParser>,
    slots: Semaphore,
}

impl Planner {
    pub(crate) fn new(
        config: Config,
        models: Arc<ModelRegistry>,
        parser: Arc<dyn PlanParser>,
    ) -> Self {
        Self {
            slots: Semaphore::new(config.max_plans),
            config,
            models,
            parser,
        }
    }

    /// One conversation with a model, under a span of its own.
    async fn ask(
        &self,
        caller: Option<TraceParent>,
        about: About<'_>,
        messages: Vec<Message>,
    ) -> MakePlanResponse {
        let started = Instant::now();
        let span = span(caller, about);
        let asked = async {
            match self.models.get(about.model) {
                Ok(model) => {
                    let (parser, retry) = (&*self.parser, &self.config.retry);
                    make_plan(&*model, parser, retry, messages, about.tools).await
                }
                Err(failure) => Planned {
                    outcome: Err(failure),
                    usage: Usage::default(),
                },
            }
        };
        let Planned { outcome, usage } = asked.instrument(span.clone()).await;
        if let Err(failure) = &outcome {
            span.record("error.type", failure.reason.as_str());
            span.record("otel.status_code", "ERROR");
        }
        let mut response = MakePlanResponse {
            usage: Some(usage.into()),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ..MakePlanResponse::default()
        };
        match outcome {
            Ok(plan) => response.plan = Some(plan.into()),
            Err(failure) => response.failure = Some(failure.into()),
        }
        response
    }

    fn slot(&self) -> Result<SemaphorePermit<'_>, RpcError> {
        self.slots.try_acquire().map_err(|_| {
            let most = self.config.max_plans;
            let message = format!("{most} plans are in the making; this planner makes no more");
            RpcError::exhausted(message).reason("NO_FREE_SLOT")
        })
    }
}

/// What a plan is for.
#[derive(Debug, Clone, Copy)]
struct About<'a> {
    session: &'a str,
    run: u32,
    model: &'a str,
    tools: &'a [String],
}

#[tonic::async_trait]
impl PlannerService for Planner {
    async fn make_plan(
        &self,
        request: Request<MakePlanRequest>,
    ) -> Result<Response<MakePlanResponse>, Status> {
        let _slot = self.slot()?;
        let caller = TraceParent::of(&request);
        let request = request.into_inner();
        if request.goal.trim().is_empty() {
            return Err(RpcError::missing("goal").into());
        }
        let messages = ask_for_plan(PLANNING, &request.goal, &request.prompt_layers);
        let about = About {
            session: &request.session,
            run: request.run,
            model: &request.model,
            tools: &request.tools,
        };
        Ok(Response::new(self.ask(caller, about, messages).await))
    }

    async fn revise_plan(
        &self,
        request: Request<RevisePlanRequest>,
    ) -> Result<Response<RevisePlanResponse>, Status> {
        let _slot = self.slot()?;
        let caller = TraceParent::of(&request);
        let request = request.into_inner();
        if request.feedback.trim().is_empty() {
            return Err(RpcError::missing("feedback").into());
        }
        let plan = request.plan.map(PlanDraft::try_from).transpose();
        let plan = plan.map_err(|error| RpcError::invalid("plan", error.to_string()))?;
        if let Some(Err(fault)) = plan.as_ref().map(Plan::new) {
            return Err(RpcError::invalid("plan", fault.to_string()).into());
        }
        let messages = ask_for_revision(
            PLANNING,
            &request.goal,
            &request.prompt_layers,
            plan.as_ref(),
            &request.results,
            &request.feedback,
        );
        let about = About {
            session: &request.session,
            run: request.run,
            model: &request.model,
            tools: &request.tools,
        };
        let answer = self.ask(caller, about, messages).await;
        Ok(Response::new(RevisePlanResponse {
            plan: answer.plan,
            failure: answer.failure,
            usage: answer.usage,
            duration_ms: answer.duration_ms,
        }))
    }
}

/// One plan, under the run that it is for. Its end is the hook point OnPlanProposed.
fn span(caller: Option<TraceParent>, about: About<'_>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "plan",
        otel.name = "plan cairn",
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "plan",
        gen_ai.agent.name = "cairn",
        gen_ai.conversation.id = about.session,
        cairn.run = about.run,
        error.type = Empty,
    );
    if let Some(caller) = caller {
        caller.adopt(&span);
    }
    span
}

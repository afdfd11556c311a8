//! The service as the contract has it.

use crate::config::Config;
use crate::messages::ask_for_plan;
use crate::parser::PlanParser;
use crate::plan::{Known, Planned, make_plan};
use cairn_engine::message::Usage;
use cairn_engine::plan::{Plan, PlanDraft};
use cairn_engine::revise::inherit_notes;
use cairn_model::ModelRegistry;
use cairn_proto::planner::planner_service_server::PlannerService;
use cairn_proto::planner::{MakePlanRequest, MakePlanResponse};
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
        request: &MakePlanRequest,
        earlier: Option<&PlanDraft>,
    ) -> MakePlanResponse {
        let started = Instant::now();
        let prompts = &self.config.prompts;
        let messages = ask_for_plan(prompts.planning(), request, earlier);
        let known = Known {
            tools: &request.tools,
            capabilities: &request.capabilities,
        };
        let span = span(caller, request);
        let asked = async {
            match self.models.get_within(&request.model, request.limits_cost) {
                Ok(model) => {
                    let (parser, retry) = (&*self.parser, &self.config.retry);
                    make_plan(&*model, parser, prompts, retry, messages, known).await
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
            Ok(mut plan) => {
                if let Some(earlier) = earlier {
                    inherit_notes(&mut plan, earlier);
                }
                response.plan = Some(plan.into());
            }
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

#[tonic::async_trait]
impl PlannerService for Planner {
    async fn make_plan(
        &self,
        request: Request<MakePlanRequest>,
    ) -> Result<Response<MakePlanResponse>, Status> {
        let _slot = self.slot()?;
        let caller = TraceParent::of(&request);
        let mut request = request.into_inner();
        let plan = check(&mut request)?;
        let response = self.ask(caller, &request, plan.as_ref()).await;
        Ok(Response::new(response))
    }
}

/// Checks the request and takes the earlier plan out of it.
fn check(request: &mut MakePlanRequest) -> Result<Option<PlanDraft>, RpcError> {
    let Some(earlier) = &mut request.earlier else {
        return match request.goal.trim().is_empty() {
            true => Err(RpcError::missing("goal")),
            false => Ok(None),
        };
    };
    if earlier.feedback.trim().is_empty() {
        return Err(RpcError::missing("earlier.feedback"));
    }
    let plan = earlier.plan.take().map(PlanDraft::try_from).transpose();
    let plan = plan.map_err(|error| RpcError::invalid("earlier.plan", error.to_string()))?;
    match plan.as_ref().map(Plan::new) {
        Some(Err(fault)) => Err(RpcError::invalid("earlier.plan", fault.to_string())),
        _ => Ok(plan),
    }
}

/// One plan, under the run that it is for. Its end is the hook point OnPlanProposed.
fn span(caller: Option<TraceParent>, request: &MakePlanRequest) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "plan",
        otel.name = "plan cairn",
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "plan",
        gen_ai.agent.name = "cairn",
        gen_ai.conversation.id = request.session,
        cairn.run = request.run,
        error.type = Empty,
    );
    if let Some(caller) = caller {
        caller.adopt(&span);
    }
    span
}

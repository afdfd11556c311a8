//! The service as the contract has it.

use crate::config::Config;
use crate::parser::PlanParser;
use crate::plan::{Planned, make_plan};
use cairn_engine::message::Usage;
use cairn_model::ModelRegistry;
use cairn_proto::planner::planner_service_server::PlannerService;
use cairn_proto::planner::{MakePlanRequest, MakePlanResponse};
use cairn_rpc::trace::TARGET;
use cairn_rpc::{RpcError, TraceParent};
use std::sync::Arc;
use tokio::sync::Semaphore;
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

    async fn plan(&self, request: &MakePlanRequest) -> Planned {
        match self.models.get(&request.model) {
            Ok(model) => {
                let (goal, layers) = (&request.goal, &request.prompt_layers);
                make_plan(&*model, &*self.parser, &self.config.retry, goal, layers).await
            }
            Err(failure) => Planned {
                outcome: Err(failure),
                usage: Usage::default(),
            },
        }
    }
}

#[tonic::async_trait]
impl PlannerService for Planner {
    async fn make_plan(
        &self,
        request: Request<MakePlanRequest>,
    ) -> Result<Response<MakePlanResponse>, Status> {
        let Ok(_slot) = self.slots.try_acquire() else {
            let most = self.config.max_plans;
            let message = format!("{most} plans are in the making; this planner makes no more");
            return Err(RpcError::exhausted(message).reason("NO_FREE_SLOT").into());
        };
        let caller = TraceParent::of(&request);
        let request = request.into_inner();
        if request.goal.trim().is_empty() {
            return Err(RpcError::missing("goal").into());
        }
        let started = Instant::now();
        let span = span(caller, &request);
        let Planned { outcome, usage } = self.plan(&request).instrument(span.clone()).await;
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
        Ok(Response::new(response))
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

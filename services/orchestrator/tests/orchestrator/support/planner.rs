//! A planner that asks the test.

use cairn_proto::event as wire;
use cairn_proto::planner::planner_service_server::{PlannerService, PlannerServiceServer};
use cairn_proto::planner::{MakePlanRequest, MakePlanResponse};
use cairn_rpc::{Exposure, Link, ServerBuilder};
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

type Answer = Result<MakePlanResponse, Status>;

/// A goal that is to be planned. Dropping it fails the call.
pub(crate) struct Asked {
    pub(crate) request: MakePlanRequest,
    answer: oneshot::Sender<Answer>,
}

impl Asked {
    pub(crate) fn answer(self, answer: Answer) {
        self.answer.send(answer).expect("the orchestrator waits");
    }

    pub(crate) fn plan(self, steps: Vec<wire::PlanStep>, usage: wire::Usage) {
        self.answer(Ok(MakePlanResponse {
            plan: Some(wire::Plan {
                order: wire::Order::Chain.into(),
                steps,
            }),
            usage: Some(usage),
            duration_ms: 7,
            failure: None,
        }));
    }

    /// Waits until nobody wants the plan any more.
    pub(crate) async fn given_up(mut self) {
        self.answer.closed().await;
    }
}

struct Played(mpsc::UnboundedSender<Asked>);

#[tonic::async_trait]
impl PlannerService for Played {
    async fn make_plan(
        &self,
        request: Request<MakePlanRequest>,
    ) -> Result<Response<MakePlanResponse>, Status> {
        let request = request.into_inner();
        let (answer, wait) = oneshot::channel();
        // The test may be over.
        let _ = self.0.send(Asked { request, answer });
        let gone = |_| Status::unavailable("the planner has gone");
        wait.await.map_err(gone)?.map(Response::new)
    }
}

pub(crate) async fn planner() -> (Link, mpsc::UnboundedReceiver<Asked>) {
    let (to_test, asked) = mpsc::unbounded_channel();
    let service = PlannerServiceServer::new(Played(to_test));
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    (server.build().await.expect("a server").link(), asked)
}

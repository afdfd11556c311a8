//! The service as the contract has it.

use crate::attempt::{self, Shared};
use crate::owner::Owner;
use crate::queue;
use cairn_proto::executor::executor_service_server::ExecutorService;
use cairn_proto::executor::{RunStepRequest, RunStepResponse};
use cairn_rpc::{RpcError, TraceParent, principal};
use futures::{Stream, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status, Streaming};

/// The executor: carries out attempts while it has slots for them.
#[derive(Debug)]
pub struct Executor {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
}

impl Executor {
    pub(crate) fn new(shared: Shared) -> (Self, Running) {
        let most = shared.config.max_attempts;
        let slots = Arc::new(Semaphore::new(most));
        let running = Running {
            slots: Arc::clone(&slots),
            most,
        };
        let executor = Self {
            slots,
            shared: Arc::new(shared),
        };
        (executor, running)
    }
}

/// The attempts that are under way.
#[derive(Debug)]
pub struct Running {
    slots: Arc<Semaphore>,
    most: usize,
}

impl Running {
    /// Waits until every attempt has ended and begins no further ones: those are refused, and their
    /// owners go elsewhere. Bound it by a deadline; what is cut then is continued elsewhere too.
    pub async fn drain(&self) {
        let most = u32::try_from(self.most).unwrap_or(u32::MAX);
        // Whoever waits for slots gets them before anybody who tries for one. An error would say
        // that there are none any more, which is as good.
        if let Ok(all) = self.slots.acquire_many(most).await {
            all.forget();
        }
    }
}

#[tonic::async_trait]
impl ExecutorService for Executor {
    type RunStepStream = Reports;

    async fn run_step(
        &self,
        request: Request<Streaming<RunStepRequest>>,
    ) -> Result<Response<Reports>, Status> {
        let namespace = principal(&request)?.namespace().clone();
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let most = self.shared.config.max_attempts;
            let message = format!("all {most} slots of this executor are taken");
            return Err(RpcError::exhausted(message).reason("NO_FREE_SLOT").into());
        };
        let shared = Arc::clone(&self.shared);
        let caller = TraceParent::of(&request);
        let (owner, reports) = Owner::new(request.into_inner());
        // Boxed, so that the task's cell is small: it is made and thrown away with each step.
        let attempt = tokio::spawn(Box::pin(async move {
            let outcome = attempt::run(&shared, namespace, caller, owner).await;
            drop(slot);
            outcome
        }));
        Ok(Response::new(Reports {
            reports,
            attempt: Some(AbortOnDropHandle::new(attempt)),
        }))
    }
}

/// The reports of one attempt. Dropping them stops the attempt, whatever it is doing.
#[derive(Debug)]
pub struct Reports {
    reports: queue::Receiver,
    attempt: Option<AbortOnDropHandle<Result<(), RpcError>>>,
}

impl Stream for Reports {
    type Item = Result<RunStepResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(report) = ready!(Pin::new(&mut self.reports).poll_next(cx)) {
            return Poll::Ready(Some(Ok(report)));
        }
        let Some(attempt) = &mut self.attempt else {
            return Poll::Ready(None);
        };
        let outcome = ready!(Pin::new(attempt).poll(cx));
        self.attempt = None;
        Poll::Ready(match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error.into())),
            Err(panic) => Some(Err(RpcError::internal(panic).into())),
        })
    }
}

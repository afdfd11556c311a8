//! The service as the contract has it.

use crate::attempt::{self, Shared};
use crate::memory::{Memory, start_bytes};
use crate::owner::Owner;
use crate::queue;
use crate::shortages::Shortages;
use crate::slots::Slots;
use cairn_proto::SLOTS_VERSION;
use cairn_proto::executor::executor_service_server::ExecutorService;
use cairn_proto::executor::{
    NotifyShortageRequest, NotifyShortageResponse, RunStepRequest, RunStepResponse,
    WatchStatusRequest, WatchStatusResponse,
};
use cairn_rpc::{RpcError, TraceParent, principal};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status, Streaming};

/// The executor: carries out attempts while it has slots for them.
#[derive(Debug)]
pub struct Executor {
    shared: Arc<Shared>,
    slots: Slots,
    memory: Memory,
    shortages: Shortages,
}

impl Executor {
    pub(crate) fn new(shared: Shared) -> (Self, Running) {
        let slots = Slots::new(&shared.config);
        let executor = Self {
            slots: slots.clone(),
            memory: Memory::new(shared.config.bytes),
            shortages: Shortages::default(),
            shared: Arc::new(shared),
        };
        (executor, Running { slots })
    }
}

/// The attempts that are under way.
#[derive(Debug)]
pub struct Running {
    slots: Slots,
}

impl Running {
    /// Waits until every attempt has ended, and begins no further ones. Those are refused, and watchers
    /// of the status know. Bound it by a deadline; an attempt that is cut continues at another executor.
    pub async fn drain(&self) {
        self.slots.drain().await;
    }
}

#[tonic::async_trait]
impl ExecutorService for Executor {
    type RunStepStream = Reports;
    type WatchStatusStream = BoxStream<'static, Result<WatchStatusResponse, Status>>;

    async fn watch_status(
        &self,
        _: Request<WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        Ok(Response::new(self.slots.reports().map(Ok).boxed()))
    }

    async fn notify_shortage(
        &self,
        request: Request<NotifyShortageRequest>,
    ) -> Result<Response<NotifyShortageResponse>, Status> {
        self.shortages.note(request.into_inner())?;
        Ok(Response::new(NotifyShortageResponse {}))
    }

    async fn run_step(
        &self,
        request: Request<Streaming<RunStepRequest>>,
    ) -> Result<Response<Reports>, Status> {
        let namespace = principal(&request)?.namespace().clone();
        let Some(slot) = self.slots.take_soon().await else {
            let most = self.shared.config.max_attempts;
            let message = format!("all {most} slots of this executor are taken");
            return Err(RpcError::exhausted(message).reason("NO_FREE_SLOT").into());
        };
        // Before the start is read.
        let memory = tokio::select! {
            biased;
            memory = self.memory.take(start_bytes(request.metadata())) => memory?,
            () = self.slots.draining() => {
                let message = "this executor stops, and has no memory for the attempt";
                return Err(RpcError::exhausted(message).reason("NO_FREE_SLOT").into());
            }
        };
        let version = slot.version;
        let shared = Arc::clone(&self.shared);
        let caller = TraceParent::of(&request);
        let (owner, reports) = Owner::new(request.into_inner());
        // Boxed, so that the task's cell is small: it is made and thrown away with each step.
        let attempt = tokio::spawn(Box::pin(async move {
            let outcome = attempt::run(&shared, namespace, caller, owner).await;
            drop((slot, memory));
            outcome
        }));
        let mut answer = Response::new(Reports {
            reports,
            attempt: Some(AbortOnDropHandle::new(attempt)),
        });
        let metadata = answer.metadata_mut();
        metadata.insert(SLOTS_VERSION, version.into());
        Ok(answer)
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

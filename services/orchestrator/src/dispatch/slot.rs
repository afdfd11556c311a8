//! Slots: reserved for an attempt, and used by one.

use super::executors::Shared;
use super::queue::{Held, Reserved};
use cairn_engine::pool::ResourceTools;
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::executor::{RunStepRequest, RunStepResponse};
use cairn_proto::{SLOTS_VERSION, START_BYTES};
use cairn_rpc::{Link, RpcError};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt as _};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status, Streaming};

/// A slot that is reserved for one attempt, with the slots of registered resources that the attempt needs besides.
/// Dropping it gives them to the next.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) executors: Weak<Shared>,
    pub(super) reserved: Reserved,
    pub(super) level: u32,
    pub(super) link: Link,
    pub(super) resources: Vec<String>,
    pub(super) tools: Arc<ResourceTools>,
    pub(super) is_used: bool,
}

impl Slot {
    /// The executor that it belongs to.
    pub(crate) fn executor(&self) -> &Arc<str> {
        &self.reserved.member
    }

    /// How much that executor can read.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    /// The ids of the resources in the pool, the executor first.
    pub(crate) fn resources(&self) -> &[String] {
        &self.resources
    }

    /// The tools that the executor may use.
    pub(crate) fn tools(&self) -> &Arc<ResourceTools> {
        &self.tools
    }

    /// The resources, for `Executors::lost`.
    pub(super) fn held(&self) -> Held {
        self.reserved.held()
    }

    /// Begins the attempt.
    ///
    /// # Errors
    /// Those of the executor. One that has no free slot after all, or cannot be reached, gets no attempt
    /// until it reports again.
    pub(crate) async fn run_step(
        mut self,
        requests: Request<UnboundedReceiver<RunStepRequest>>,
    ) -> Result<(Streaming<RunStepResponse>, Used), Status> {
        let mut executor = ExecutorServiceClient::new(self.link.clone());
        let (open, gate) = oneshot::channel::<()>();
        let gate = Some(gate).filter(|_| requests.metadata().contains_key(START_BYTES));
        let requests = requests.map(|messages| Gated { gate, messages });
        let begun = executor.run_step(requests).await;
        drop(open);
        if let Some(executors) = self.executors.upgrade() {
            match &begun {
                Ok(answer) => executors.begin(&self.reserved, version_of(answer.metadata())),
                Err(status) => executors.refuse(&self.reserved, &RpcError::from_status(status)),
            }
            self.is_used = true;
        }
        let answer = begun?;
        let used = Used {
            executors: self.executors.clone(),
            reserved: self.reserved.clone(),
            is_ended: false,
        };
        Ok((answer.into_inner(), used))
    }
}

/// The messages of an owner. A large start waits until the executor has memory for it.
struct Gated {
    /// Ends when its sender is dropped.
    gate: Option<oneshot::Receiver<()>>,
    messages: UnboundedReceiver<RunStepRequest>,
}

impl Stream for Gated {
    type Item = RunStepRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(gate) = &mut self.gate {
            let _ = ready!(Pin::new(gate).poll(context));
            self.gate = None;
        }
        self.messages.poll_next_unpin(context)
    }
}

/// A slot that an attempt has. Dropping it before the stream ends means that the owner lets go of the attempt.
#[derive(Debug)]
pub(crate) struct Used {
    executors: Weak<Shared>,
    reserved: Reserved,
    is_ended: bool,
}

impl Used {
    /// The executor has ended the stream: it has freed the slot, and reports that.
    pub(crate) fn end_by_executor(mut self) {
        self.is_ended = true;
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(executors) = self.executors.upgrade() {
            executors.end(&self.reserved, self.is_ended);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(executors) = self.executors.upgrade().filter(|_| !self.is_used) {
            executors.release(&self.reserved);
        }
    }
}

/// The version of the reports that count an attempt. Without one, the next report does.
fn version_of(metadata: &MetadataMap) -> u64 {
    let version = metadata.get(SLOTS_VERSION);
    let version = version.and_then(|version| version.to_str().ok()?.parse().ok());
    version.unwrap_or(u64::MAX)
}

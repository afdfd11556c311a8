//! The stream of an attempt, between its owner and its executor.

use super::Message;
use crate::dispatch::{Catalogue, Dispatcher, Used};
use crate::key::SessionKey;
use crate::store::Store;
use cairn_engine::event::AttemptRef;
use cairn_proto::event::TextDelta;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{CallResult, RunStepRequest, RunStepResponse};
use futures::channel::mpsc::UnboundedSender;
use futures::stream::{self, StreamExt as _};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Parts of a reply that wait to be published; more than these are lost.
const MOST_PARTS: usize = 8;

/// Publishes what it is sent, one after the other, until nobody sends any more.
fn publish(store: &Store, key: &SessionKey) -> mpsc::Sender<TextDelta> {
    let (sender, mut deltas) = mpsc::channel(MOST_PARTS);
    let (store, key) = (store.clone(), key.clone());
    tokio::spawn(async move {
        while let Some(delta) = deltas.recv().await {
            store.publish(&key, delta).await;
        }
    });
    sender
}

/// The stream of an attempt, as its owner reads it.
pub(super) struct Reports {
    /// Dropped before the stream, so the dispatcher knows of a stream that its owner drops before the
    /// executor does.
    pub(super) used: Used,
    pub(super) answers: tonic::Streaming<RunStepResponse>,
    pub(super) to_executor: UnboundedSender<RunStepRequest>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) store: Store,
    pub(super) key: SessionKey,
    pub(super) attempt: AttemptRef,
    /// The stream's number at its owner.
    pub(super) stream: u64,
    /// Publishes parts of replies, once there is one.
    pub(super) publisher: Option<mpsc::Sender<TextDelta>>,
    pub(super) dispatch: Arc<Dispatcher>,
}

impl Reports {
    /// What an executor sends, for the owner: one stream, because each layer around it costs a tool step
    /// more than its messages do.
    pub(super) fn messages(self) -> impl stream::Stream<Item = Message> + Send {
        stream::unfold(Some(self), |reports| async { reports?.next().await })
    }

    /// The next message; after the last, nothing.
    async fn next(mut self) -> Option<(Message, Option<Self>)> {
        loop {
            let report = match self.answers.next().await {
                Some(Ok(report)) => report,
                end => {
                    let (attempt, stream) = (self.attempt, self.stream);
                    self.used.end_by_executor();
                    let status = end.and_then(Result::err);
                    let broken = Message::Broken {
                        attempt,
                        stream,
                        status,
                    };
                    return Some((broken, None));
                }
            };
            if let Some(report) = self.take_aside(report) {
                // What is judged anew is judged by the tools as they are.
                if report
                    .results
                    .iter()
                    .any(|result| self.is_of_another(result))
                {
                    self.dispatch.read_again().await;
                }
                let message = Message::Report {
                    attempt: self.attempt,
                    stream: self.stream,
                    report: Box::new(report),
                };
                return Some((message, Some(self)));
            }
        }
    }

    /// The tool of a call that was not sent is none that the catalogue has.
    fn is_of_another(&self, result: &CallResult) -> bool {
        let catalogue = self.dispatch.catalogue();
        let is_known =
            |digest: &String| catalogue.facts.values().any(|tool| tool.digest == *digest);
        result
            .tool_digest
            .as_ref()
            .is_some_and(|digest| !is_known(digest))
    }

    /// Answers an executor that lacks the catalogue. Parts of replies are none of the owner's business:
    /// they are published beside, and reports wait for none of them.
    fn take_aside(&mut self, mut report: RunStepResponse) -> Option<RunStepResponse> {
        if report.lacks_catalogue {
            let message = Some(ToExecutor::Catalogue(self.catalogue.offered.clone()));
            // An executor that is gone shows as a broken stream.
            let _ = self.to_executor.unbounded_send(RunStepRequest { message });
            return None;
        }
        let Some(mut delta) = report.delta.take() else {
            return Some(report);
        };
        // An executor speaks for its own attempt only.
        delta.attempt = Some(self.attempt.into());
        let publisher = self
            .publisher
            .get_or_insert_with(|| publish(&self.store, &self.key));
        // A watcher sees that one is missing, and then the whole reply.
        let _ = publisher.try_send(delta);
        None
    }
}

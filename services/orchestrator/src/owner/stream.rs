//! The stream of an attempt, between its owner and its executor.

use super::Message;
use super::long_results::{LongResults, Stored, Wholes, has_long};
use crate::dispatch::{Catalogue, Dispatcher, Used};
use crate::key::SessionKey;
use crate::store::Store;
use cairn_engine::event::AttemptRef;
use cairn_engine::result::most_for_window;
use cairn_proto::event::TextDelta;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{CallResult, RunStepRequest, RunStepResponse};
use futures::channel::mpsc::UnboundedSender;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{Stream, StreamExt as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tonic::Status;

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

/// The tools on offer, as the owner of an attempt and its stream share them. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Offer(Arc<Mutex<Arc<Catalogue>>>);

impl Offer {
    pub(super) fn new(catalogue: Arc<Catalogue>) -> Self {
        Self(Arc::new(Mutex::new(catalogue)))
    }

    /// Others are on offer from now on.
    pub(super) fn set(&self, catalogue: Arc<Catalogue>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = catalogue;
    }

    fn get(&self) -> Arc<Catalogue> {
        let catalogue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        catalogue.clone()
    }
}

/// The stream of an attempt, as its owner reads it. It is polled by hand, because each layer around it costs
/// a tool step more than its messages do.
pub(super) struct Reports {
    /// None once the executor has ended the stream. It stands before `answers`, so that it is dropped first:
    /// the dispatcher then knows of the end before the executor does.
    pub(super) used: Option<Used>,
    pub(super) answers: tonic::Streaming<RunStepResponse>,
    pub(super) to_executor: UnboundedSender<RunStepRequest>,
    pub(super) offer: Offer,
    pub(super) store: Store,
    pub(super) key: SessionKey,
    pub(super) attempt: AttemptRef,
    /// The stream's number at its owner.
    pub(super) stream: u64,
    /// Publishes parts of replies, once there is one.
    pub(super) publisher: Option<mpsc::Sender<TextDelta>>,
    pub(super) dispatch: Arc<Dispatcher>,
    pub(super) long: Storing,
    /// A report that is judged by the tools as they are, once these are read.
    pub(super) waiting: Option<(RunStepResponse, Wholes, BoxFuture<'static, ()>)>,
}

/// The long results of the stream.
pub(super) struct Storing {
    /// Most bytes of a result that the model gets at once; fewer once a reply names a small window.
    result_bytes: usize,
    /// Once there is one. None while they are being stored.
    results: Option<Box<LongResults>>,
    /// Stores those of a message. Nothing is read from the stream meanwhile, so the executor waits.
    future: Option<BoxFuture<'static, (Box<LongResults>, Stored)>>,
}

impl Storing {
    /// A result with more bytes is long.
    pub(super) fn new(result_bytes: usize) -> Self {
        Self {
            result_bytes,
            results: None,
            future: None,
        }
    }
}

/// What an executor sends, for the owner.
impl Stream for Reports {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let this = &mut *self;
        if this.used.is_none() {
            return Poll::Ready(None);
        }
        loop {
            if let Some((.., reading)) = &mut this.waiting {
                ready!(reading.as_mut().poll(context));
            }
            if let Some((report, wholes, _)) = this.waiting.take() {
                return Poll::Ready(Some(this.message(report, wholes)));
            }
            if let Some(storing) = &mut this.long.future {
                let (results, stored) = ready!(storing.as_mut().poll(context));
                (this.long.results, this.long.future) = (Some(results), None);
                match stored {
                    Ok(None) => {}
                    Ok(Some((report, wholes))) => {
                        if let Some(message) = this.judged(report, wholes) {
                            return Poll::Ready(Some(message));
                        }
                        continue;
                    }
                    Err(status) => return Poll::Ready(Some(this.broken(Some(status)))),
                }
            }
            let report = match ready!(this.answers.poll_next_unpin(context)) {
                Some(Ok(report)) => report,
                end => return Poll::Ready(Some(this.broken(end.and_then(Result::err)))),
            };
            let Some(report) = this.take_aside(report) else {
                continue;
            };
            let most = this.long.result_bytes;
            // The executor gave the results that come with a reply to the model before the reply.
            let window = report.reply.as_ref().map_or(0, |reply| reply.window_tokens);
            this.long.result_bytes = most_for_window(most, window);
            if has_long(&report, most) {
                this.store_long(report, most);
                continue;
            }
            if let Some(message) = this.judged(report, Wholes::new()) {
                return Poll::Ready(Some(message));
            }
        }
    }
}

impl Reports {
    fn message(&self, report: RunStepResponse, wholes: Wholes) -> Message {
        Message::Report {
            attempt: self.attempt,
            stream: self.stream,
            report: Box::new(report),
            wholes,
        }
    }

    /// None if the tools have to be read before the report is judged.
    fn judged(&mut self, report: RunStepResponse, wholes: Wholes) -> Option<Message> {
        let mut results = report.results.iter();
        if !results.any(|result| self.is_of_another(result)) {
            return Some(self.message(report, wholes));
        }
        let dispatch = self.dispatch.clone();
        let reading = async move { dispatch.read_again().await };
        self.waiting = Some((report, wholes, reading.boxed()));
        None
    }

    /// Begins to store what the message has of long results, which have more than `most` bytes.
    fn store_long(&mut self, message: RunStepResponse, most: usize) {
        let (store, key) = (&self.store, &self.key);
        let results = self.long.results.take();
        let mut results =
            results.unwrap_or_else(|| Box::new(LongResults::new(store.clone(), key.clone())));
        let storing = async move {
            let stored = results.take(message, most).await;
            (results, stored)
        };
        self.long.future = Some(storing.boxed());
    }

    /// The executor has ended the stream.
    fn broken(&mut self, status: Option<Status>) -> Message {
        if let Some(used) = self.used.take() {
            used.end_by_executor();
        }
        Message::Broken {
            attempt: self.attempt,
            stream: self.stream,
            status,
        }
    }

    /// The tool of a call that was not sent is none that the catalogue has.
    fn is_of_another(&self, result: &CallResult) -> bool {
        let Some(digest) = &result.tool_digest else {
            return false;
        };
        let catalogue = self.dispatch.catalogue();
        !catalogue.facts.values().any(|tool| tool.digest == *digest)
    }

    /// Answers an executor that lacks the catalogue. Parts of replies are none of the owner's business:
    /// they are published beside, and reports wait for none of them.
    fn take_aside(&mut self, mut report: RunStepResponse) -> Option<RunStepResponse> {
        if report.lacks_catalogue {
            let message = Some(ToExecutor::Catalogue(self.offer.get().offered.clone()));
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
        let _ = publisher.try_send(*delta);
        None
    }
}

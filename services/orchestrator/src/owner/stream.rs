//! The stream of an attempt, between its owner and its executor.

use super::Message;
use crate::dispatch::{Catalogue, Used};
use crate::key::SessionKey;
use crate::store::Store;
use cairn_engine::event::AttemptRef;
use cairn_proto::event::TextDelta;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{RunStepRequest, RunStepResponse};
use futures::channel::mpsc::UnboundedSender;
use futures::stream::{self, StreamExt as _};
use std::sync::Arc;
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

/// Sends the catalogue to an executor that lacks it; the rest is what it sends.
pub(super) fn with_catalogue(
    answers: tonic::Streaming<RunStepResponse>,
    to_executor: UnboundedSender<RunStepRequest>,
    catalogue: Arc<Catalogue>,
) -> impl stream::Stream<Item = Result<RunStepResponse, Status>> + Send {
    answers.filter(move |answer| {
        let lacks = answer.as_ref().is_ok_and(|report| report.lacks_catalogue);
        if lacks {
            let message = Some(ToExecutor::Catalogue(catalogue.offered.clone()));
            // An executor that is gone shows as a broken stream.
            let _ = to_executor.unbounded_send(RunStepRequest { message });
        }
        std::future::ready(!lacks)
    })
}

/// Keeps a slot with the stream of its attempt. The slot is dropped first, so the dispatcher knows of a
/// stream that its owner drops before the executor does.
pub(super) fn until_ended(
    used: Used,
    answers: impl stream::Stream<Item = Result<RunStepResponse, Status>> + Send,
) -> impl stream::Stream<Item = Result<RunStepResponse, Status>> + Send {
    let state = (used, Box::pin(answers));
    stream::unfold(Some(state), |state| async {
        let (used, mut answers) = state?;
        match answers.next().await {
            Some(Ok(answer)) => Some((Ok(answer), Some((used, answers)))),
            end => {
                used.end_by_executor();
                end.map(|end| (end, None))
            }
        }
    })
}

/// What an executor sends, for the owner. Parts of replies are none of its business: they are
/// published beside, and reports wait for none of them.
pub(super) fn messages_of(
    store: Store,
    key: SessionKey,
    attempt: AttemptRef,
    stream: u64,
    answers: impl stream::Stream<Item = Result<RunStepResponse, Status>> + Send,
) -> impl stream::Stream<Item = Message> + Send {
    let broken = move |status| Message::Broken {
        attempt,
        stream,
        status,
    };
    let mut publisher = None;
    let messages = answers.filter_map(move |answer| {
        std::future::ready(match answer {
            Ok(mut report) => match report.delta.take() {
                None => Some(Message::Report {
                    attempt,
                    stream,
                    report: Box::new(report),
                }),
                Some(mut delta) => {
                    // An executor speaks for its own attempt only.
                    delta.attempt = Some(attempt.into());
                    let publisher = publisher.get_or_insert_with(|| publish(&store, &key));
                    // Whoever watches sees that one is missing, and then the whole reply.
                    let _ = publisher.try_send(delta);
                    None
                }
            },
            Err(status) => Some(broken(Some(status))),
        })
    });
    messages.chain(stream::once(async move { broken(None) }))
}

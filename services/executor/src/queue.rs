//! Messages to the owner that wait until its stream takes them.
//!
//! Reports never wait for room, and cannot pile up: at most one reply and the results of its calls
//! are sent before the owner has to acknowledge them. Parts of a reply are not acknowledged, so the
//! bytes of those that wait are limited here. Text that finds no room stays where it is gathered,
//! and is dropped when the whole reply is reported. Parts of results wait for room, and with them
//! the tools service.

use cairn_proto::event::{CallProgress, TextDelta};
use cairn_proto::executor::{ResultPart, RunStepResponse};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;

/// Most bytes of parts that wait for the owner.
const MOST_WAITING: usize = 256 * 1024;
/// Parts of results that wait for the owner, whatever their calls are.
const MOST_PARTS: usize = 2;
/// Bytes of a part beside its text, about.
const AROUND_TEXT: usize = 256;

/// The end that the attempt sends to. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    messages: UnboundedSender<RunStepResponse>,
    room: Room,
    parts: Arc<Semaphore>,
}

/// The end that the owner's stream takes from.
#[derive(Debug)]
pub(crate) struct Receiver {
    messages: UnboundedReceiver<RunStepResponse>,
    room: Room,
    parts: Arc<Semaphore>,
}

/// Room for parts of replies; each byte is a permit.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

pub(crate) fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = unbounded();
    let room = Room(Arc::new(Semaphore::new(MOST_WAITING)));
    let parts = Arc::new(Semaphore::new(MOST_PARTS));
    let sender = Sender {
        messages: sender,
        room: room.clone(),
        parts: parts.clone(),
    };
    let receiver = Receiver {
        messages: receiver,
        room,
        parts,
    };
    (sender, receiver)
}

impl Room {
    /// Waits until there is room for a part with so many bytes of text. Takes none of it.
    pub(crate) async fn wait_for(&self, bytes: usize) {
        let bytes = u32::try_from(bytes + AROUND_TEXT).unwrap_or(u32::MAX);
        // It is never closed.
        drop(self.0.acquire_many(bytes).await);
    }
}

impl Sender {
    /// Room for the next part.
    pub(crate) fn room(&self) -> Room {
        self.room.clone()
    }

    /// Sends a report. Without a receiver the stream is broken, and the next look at it says so.
    pub(crate) fn report(&self, report: RunStepResponse) {
        drop(self.messages.unbounded_send(report));
    }

    /// Sends progress of a call if more than half of the room is free, so that texts always find room.
    pub(crate) fn progress(&self, progress: CallProgress) {
        if self.room.0.available_permits() > MOST_WAITING / 2 {
            self.pass_on(TextDelta {
                progress: Some(progress),
                ..TextDelta::default()
            });
        }
    }

    /// Sends a part of a result, once few enough of them wait.
    pub(crate) async fn part(&self, part: ResultPart) {
        // It is never closed.
        if let Ok(permit) = self.parts.acquire().await {
            permit.forget();
        }
        self.report(RunStepResponse {
            part: Some(Box::new(part)),
            ..RunStepResponse::default()
        });
    }

    /// Sends a part of a reply, which takes its room.
    pub(crate) fn pass_on(&self, delta: TextDelta) {
        self.room.0.forget_permits(size_of(&delta));
        let message = RunStepResponse {
            delta: Some(Box::new(delta)),
            ..RunStepResponse::default()
        };
        drop(self.messages.unbounded_send(message));
    }
}

impl Stream for Receiver {
    type Item = RunStepResponse;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(Pin::new(&mut self.messages).poll_next(cx));
        if let Some(delta) = message.as_ref().and_then(|message| message.delta.as_ref()) {
            self.room.0.add_permits(size_of(delta));
        }
        if message
            .as_ref()
            .is_some_and(|message| message.part.is_some())
        {
            self.parts.add_permits(1);
        }
        Poll::Ready(message)
    }
}

fn size_of(delta: &TextDelta) -> usize {
    let progress = delta.progress.as_ref();
    delta.text.len() + progress.map_or(0, |it| it.message.len()) + AROUND_TEXT
}

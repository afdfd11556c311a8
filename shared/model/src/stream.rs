//! Streamed replies: taking a whole reply apart, and putting a stream together.

use crate::{ChatReply, Model, ModelError, StreamEvent};
use cairn_engine::message::{Notice, Part};
use futures::stream::{BoxStream, StreamExt};
use std::future;

/// The events of a reply that is already whole: its texts and calls in order, then its end.
pub fn reply_events(reply: ChatReply) -> Vec<StreamEvent> {
    events_of(reply, |text| vec![text.to_owned()])
}

/// As [`reply_events`], with the texts word by word.
pub(crate) fn word_events(reply: ChatReply) -> Vec<StreamEvent> {
    let words = |text: &str| text.split_inclusive(' ').map(str::to_owned).collect();
    events_of(reply, words)
}

/// As [`reply_events`], for a reply whose texts have been shown already.
pub(crate) fn events_after_text(reply: ChatReply) -> Vec<StreamEvent> {
    events_of(reply, |_| Vec::new())
}

fn events_of(reply: ChatReply, pieces: impl Fn(&str) -> Vec<String>) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for part in &reply.message.parts {
        match part {
            Part::Text(text) | Part::Notice(Notice { text, .. }) => {
                let deltas = pieces(text).into_iter();
                events.extend(deltas.map(|text| StreamEvent::AssistantTextDelta { text }));
            }
            Part::Call(call) => events.push(StreamEvent::ToolCall(call.clone())),
            Part::Result(_) | Part::Media(_) | Part::Opaque(_) => {}
        }
    }
    events.push(StreamEvent::TurnComplete {
        reply: Box::new(reply),
    });
    events
}

/// Reads a stream to its end, showing each event to `on_event`, and returns the whole reply.
///
/// # Errors
/// The error that the stream ended with; [`ModelError::Stream`] if it ended without an end.
pub async fn collect(
    events: BoxStream<'static, StreamEvent>,
    mut on_event: impl FnMut(&StreamEvent),
) -> Result<ChatReply, ModelError> {
    let at_once = |event: &StreamEvent| {
        on_event(event);
        future::ready(())
    };
    collect_paced(events, at_once).await
}

/// As [`collect`], but reads the next event only once what `on_event` returns is ready.
pub(crate) async fn collect_paced<F: Future>(
    mut events: BoxStream<'static, StreamEvent>,
    mut on_event: impl FnMut(&StreamEvent) -> F,
) -> Result<ChatReply, ModelError> {
    while let Some(event) = events.next().await {
        on_event(&event).await;
        match event {
            StreamEvent::TurnComplete { reply } => return Ok(*reply),
            StreamEvent::Error { error, .. } => return Err(error),
            StreamEvent::AssistantTextDelta { .. } | StreamEvent::ToolCall(_) => {}
        }
    }
    Err(ModelError::Stream {
        message: "the stream ended before the reply did".to_owned(),
    })
}

impl From<ModelError> for StreamEvent {
    fn from(error: ModelError) -> Self {
        let message = match &error {
            // Whoever reads the event knows that the stream broke; said once is enough.
            ModelError::Stream { message } => message.clone(),
            other => other.to_string(),
        };
        Self::Error { message, error }
    }
}

/// Asks for a streamed reply and reads it as [`collect`] does.
///
/// # Errors
/// Those of [`Model::chat_stream`] and of [`collect`].
pub async fn chat_streamed(
    model: &dyn Model,
    request: &crate::ChatRequest,
    on_event: impl FnMut(&StreamEvent),
) -> Result<ChatReply, ModelError> {
    collect(model.chat_stream(request).await?, on_event).await
}

//! Streamed replies: taking a whole reply apart, and putting a stream together.

use crate::{ChatReply, Model, ModelError, StreamEvent};
use futures::stream::{BoxStream, StreamExt};

/// The events of a reply that is already whole: its text at once, its calls, its end.
pub fn reply_events(reply: ChatReply) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    if !reply.message.text.is_empty() {
        events.push(StreamEvent::AssistantTextDelta {
            text: reply.message.text.clone(),
        });
    }
    let calls = reply.message.tool_calls.iter().cloned();
    events.extend(calls.map(StreamEvent::ToolCall));
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
    mut events: BoxStream<'static, StreamEvent>,
    mut on_event: impl FnMut(&StreamEvent),
) -> Result<ChatReply, ModelError> {
    while let Some(event) = events.next().await {
        on_event(&event);
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

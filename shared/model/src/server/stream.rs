//! From server-sent events to the events of a reply.

use super::reply::{Asked, Draft};
use super::{Dialect, Piece, Provider};
use crate::stream::reply_events;
use crate::{ModelError, StreamEvent};
use cairn_http::{HttpError, HttpResponse};
use futures::stream::{self, BoxStream, StreamExt};
use sse_stream::{Sse, SseByteStream};
use std::collections::VecDeque;
use std::sync::Arc;

/// The events of a streamed reply, once the first of them is there.
///
/// # Errors
/// What went wrong before the first event.
pub(super) async fn events(
    response: HttpResponse,
    asked: Asked,
    dialect: &'static Dialect,
    provider: Arc<Provider>,
) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
    let bytes = stream::try_unfold(response, |mut response| async move {
        Ok::<_, HttpError>(response.chunk().await?.map(|chunk| (chunk, response)))
    });
    let mut pump = Pump {
        source: Some(SseByteStream::new(bytes.boxed()).boxed()),
        draft: Draft::default(),
        ready: VecDeque::new(),
        asked,
        dialect,
        provider,
    };
    pump.fill().await?;
    Ok(stream::unfold(pump, |mut pump| async move {
        if let Err(error) = pump.fill().await {
            pump.source = None;
            pump.ready.push_back(StreamEvent::from(error));
        }
        pump.ready.pop_front().map(|event| (event, pump))
    })
    .boxed())
}

struct Pump {
    /// None after the end; dropping it closes the connection.
    source: Option<BoxStream<'static, Result<Sse, sse_stream::Error>>>,
    draft: Draft,
    ready: VecDeque<StreamEvent>,
    asked: Asked,
    dialect: &'static Dialect,
    provider: Arc<Provider>,
}

impl Pump {
    /// Reads until an event is ready or the stream is at its end.
    async fn fill(&mut self) -> Result<(), ModelError> {
        while self.ready.is_empty() {
            let Some(source) = &mut self.source else {
                return Ok(());
            };
            match source.next().await {
                Some(Ok(sse)) => match self.accept(sse.data.as_deref().unwrap_or_default()) {
                    // What is left is usage at most, and that can be estimated.
                    Err(ModelError::Stream { .. }) if self.draft.is_whole() => self.complete()?,
                    outcome => outcome?,
                },
                Some(Err(_)) | None if self.draft.is_whole() => self.complete()?,
                Some(Err(error)) => return Err(self.explain(error)),
                None => return Err(ended_early()),
            }
        }
        Ok(())
    }

    fn accept(&mut self, data: &str) -> Result<(), ModelError> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(());
        }
        match (self.dialect.piece)(&mut self.draft, data, &self.provider.cleaner)? {
            Piece::Text(text) if text.is_empty() => Ok(()),
            Piece::Text(text) => {
                self.draft.text.push_str(&text);
                let event = StreamEvent::AssistantTextDelta { text };
                self.ready.push_back(event);
                Ok(())
            }
            Piece::End if self.draft.is_whole() || !self.draft.is_empty() => self.complete(),
            Piece::End => Err(ended_early()),
        }
    }

    /// Ends the stream with its calls and the whole reply. The text was shown as it came.
    fn complete(&mut self) -> Result<(), ModelError> {
        self.source = None;
        let draft = std::mem::take(&mut self.draft);
        let reply = draft.finish(&self.asked, &self.provider)?;
        let events = reply_events(reply).into_iter();
        let unseen =
            events.filter(|event| !matches!(event, StreamEvent::AssistantTextDelta { .. }));
        self.ready.extend(unseen);
        Ok(())
    }

    fn explain(&self, error: sse_stream::Error) -> ModelError {
        match error {
            sse_stream::Error::Body(cause) => match cause.downcast::<HttpError>() {
                Ok(error) => (*error).into(),
                Err(other) => self.broken(&other.to_string()),
            },
            other => self.broken(&other.to_string()),
        }
    }

    fn broken(&self, message: &str) -> ModelError {
        ModelError::Stream {
            message: self.provider.cleaner.clean(message),
        }
    }
}

fn ended_early() -> ModelError {
    ModelError::Stream {
        message: "the stream ended before the reply did".to_owned(),
    }
}

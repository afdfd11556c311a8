//! From server-sent events to the events of a reply.

use super::draft::Draft;
use super::lines::Lines;
use super::reply::Asked;
use super::{Dialect, Piece, Provider, fault};
use crate::clean::HeldBack;
use crate::stream::events_after_text;
use crate::{ModelError, StreamEvent};
use cairn_http::{HttpError, HttpResponse};
use futures::stream::{self, BoxStream, StreamExt};
use sse_stream::{Sse, SseByteStream};
use std::collections::VecDeque;
use std::io::Cursor;
use std::sync::Arc;

/// The name of an event that is an error, in every protocol.
const ERROR: &str = "error";

/// The events of a streamed reply, once the first of them is there. `head` has the first bytes of the
/// response.
///
/// # Errors
/// What went wrong before the first event.
pub(super) async fn events(
    head: Vec<u8>,
    response: HttpResponse,
    asked: Asked,
    dialect: &'static Dialect,
    provider: Arc<Provider>,
) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
    let source = Source {
        head: Some(head),
        response,
        event: OpenEvent::up_to(provider.max_json_bytes()),
        lines: Lines::default(),
    };
    let bytes = stream::try_unfold(source, |mut source| async move {
        let lines = source.next().await?;
        Ok::<_, HttpError>(lines.map(|lines| (Cursor::new(lines), source)))
    });
    let mut pump = Pump {
        source: Some(SseByteStream::new(bytes.boxed()).boxed()),
        draft: Draft::default(),
        held: HeldBack::default(),
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

/// The lines of a response, as the parser of events understands them.
struct Source {
    head: Option<Vec<u8>>,
    response: HttpResponse,
    event: OpenEvent,
    lines: Lines,
}

impl Source {
    /// Some more whole lines, or none yet; nothing after the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        if let Some(head) = self.head.take() {
            return self.take(&head).map(Some);
        }
        match self.response.chunk().await? {
            Some(chunk) => self.take(&chunk).map(Some),
            None => Ok(self.lines.end()),
        }
    }

    fn take(&mut self, chunk: &[u8]) -> Result<Vec<u8>, HttpError> {
        self.event.take(chunk)?;
        Ok(self.lines.take(chunk))
    }
}

/// The event that has begun and not ended: all of it is in memory until it is whole, so its size is
/// limited where its bytes arrive.
struct OpenEvent {
    bytes: u64,
    limit: u64,
    /// The last byte that came.
    last: u8,
}

impl OpenEvent {
    fn up_to(limit: u64) -> Self {
        Self {
            bytes: 0,
            limit,
            last: 0,
        }
    }

    /// # Errors
    /// [`HttpError::TooLarge`] once the event is larger than it may be.
    fn take(&mut self, chunk: &[u8]) -> Result<(), HttpError> {
        // A blank line ends an event. Line ends are LF, CR or both.
        let is_end = |pair: &[u8]| matches!(pair, b"\n\n" | b"\r\r" | b"\n\r");
        let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else {
            return Ok(());
        };
        let end = chunk.windows(2).rposition(is_end).map(|at| at + 1);
        let end = end.or_else(|| is_end(&[self.last, *first]).then_some(0));
        self.last = *last;
        self.bytes = match end {
            Some(end) => (chunk.len() - end) as u64,
            None => self.bytes + chunk.len() as u64,
        };
        match self.bytes > self.limit {
            true => Err(HttpError::TooLarge { limit: self.limit }),
            false => Ok(()),
        }
    }
}

struct Pump {
    /// None after the end; dropping it closes the connection.
    source: Option<BoxStream<'static, Result<Sse, sse_stream::Error>>>,
    draft: Draft,
    /// The end of the text, not shown while it may be the beginning of a secret.
    held: HeldBack,
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
                Some(Ok(sse)) => match self.accept(&sse) {
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

    fn accept(&mut self, event: &Sse) -> Result<(), ModelError> {
        let data = event.data.as_deref().unwrap_or_default().trim();
        let cleaner = &self.provider.cleaner;
        if event.event.as_deref() == Some(ERROR) {
            return Err(fault::of_event(data, cleaner));
        }
        if data.is_empty() {
            return Ok(());
        }
        let text = match (self.dialect.piece)(&mut self.draft, data, cleaner)? {
            Piece::Text(text) => text,
            Piece::End if self.draft.is_whole() || !self.draft.is_empty() => {
                return self.complete();
            }
            Piece::End => return Err(ended_early()),
        };
        self.provider.check_size(self.draft.bytes())?;
        let text = cleaner.redact_piece(&mut self.held, text);
        self.show(text);
        Ok(())
    }

    fn show(&mut self, text: String) {
        if !text.is_empty() {
            self.ready
                .push_back(StreamEvent::AssistantTextDelta { text });
        }
    }

    /// Ends the stream with its calls and the whole reply. The text was shown as it came, but for
    /// what was held back.
    fn complete(&mut self) -> Result<(), ModelError> {
        self.source = None;
        let rest = self.provider.cleaner.redact_rest(&mut self.held);
        self.show(rest);
        let draft = std::mem::take(&mut self.draft);
        let reply = draft.finish(&self.asked, &self.provider)?;
        self.ready.extend(events_after_text(reply));
        Ok(())
    }

    fn explain(&self, error: sse_stream::Error) -> ModelError {
        match error {
            sse_stream::Error::Body(cause) => match cause.downcast::<HttpError>() {
                Ok(error) => self.provider.error(*error),
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

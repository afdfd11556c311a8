//! Requests to a server over HTTP, and what their answers mean.
//!
//! The library's client leaves out an error that names another request, and waits; it drops an answer that it
//! cannot read, and tells a refusal from a lost request by its status at best. This one reads each answer to
//! the end of what it says of its request.

use super::MOST_ERROR_BYTES;
use super::events::{Events, of_messages};
use super::frame::{Gathered, REFUSED, Room, read};
use cairn_http::{RawClient, RawError, RawResponse};
use futures::stream::{self, BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

type Failure = StreamableHttpError<RawError>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Stream = BoxStream<'static, Result<Sse, SseError>>;

/// The client of one server.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    client: RawClient,
    room: Room,
    /// Most bytes of an event.
    message_bytes: usize,
}

impl Web {
    pub(crate) fn new(client: RawClient, message_bytes: usize) -> Self {
        Self {
            client,
            room: Room::new(message_bytes),
            message_bytes,
        }
    }
}

/// A request that was sent.
struct Asked {
    /// None if it wants no answer.
    id: Option<RequestId>,
    is_call: bool,
    is_discovery: bool,
    has_session: bool,
}

impl StreamableHttpClient for Web {
    type Error = RawError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    /// The limits are those of every frame.
    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        _limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let accepted = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, accepted);
        for (name, value) in custom_headers {
            let is_reserved = [ACCEPT.as_str(), HEADER_SESSION_ID, HEADER_LAST_EVENT_ID]
                .iter()
                .any(|reserved| name.as_str().eq_ignore_ascii_case(reserved));
            if is_reserved {
                return Err(Failure::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        let asked = Asked::of(&message, session_id.is_some());
        if let Some(session) = session_id {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        asked.answered(response, &self.room).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.client
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Stream, Failure> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            self.message_bytes,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<Stream, Failure> {
        let events = self
            .client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                max_sse_event_size,
            )
            .await?;
        let readable = |event: Result<Sse, SseError>| {
            let events: Vec<Result<Sse, SseError>> = match event {
                Ok(event) => of_event(event).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(events)
        };
        Ok(events.flat_map(readable).boxed())
    }
}

/// The event with data that the library can read; several of them for a batch.
fn of_event(mut event: Sse) -> Vec<Sse> {
    let Some(data) = event.data.take() else {
        return vec![event];
    };
    let mut events = of_messages(&read(data.as_bytes(), None));
    match events.first_mut() {
        Some(first) => event.data = first.data.take(),
        None => return vec![event],
    }
    events[0] = event;
    events
}

impl Asked {
    fn of(message: &ClientJsonRpcMessage, has_session: bool) -> Self {
        let request = match message {
            JsonRpcMessage::Request(request) => Some(request),
            _ => None,
        };
        let kind = request.map(|request| &request.request);
        Self {
            id: request.map(|request| request.id.clone()),
            is_call: matches!(kind, Some(ClientRequest::CallToolRequest(_))),
            is_discovery: matches!(kind, Some(ClientRequest::DiscoverRequest(_))),
            has_session,
        }
    }

    /// What an answer says of the request.
    async fn answered(
        &self,
        response: RawResponse,
        room: &Room,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (status, headers) = (response.status(), response.headers().clone());
        let session = headers.get(HEADER_SESSION_ID);
        let session = session.and_then(|it| it.to_str().ok()).map(str::to_owned);
        if let Some(refusal) = self.refusal(status, &headers) {
            return Err(refusal);
        }
        if !status.is_success() {
            let body = body(response, MOST_ERROR_BYTES).await;
            return self.failed(status, &headers, &body);
        }
        let Some(id) = self.id.clone() else {
            // Nothing is asked, so nothing is missed.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            // The answer can only come in the stream of the session.
            return match self.has_session {
                true => Ok(StreamableHttpPostResponse::Accepted),
                false => Err(not_the_protocol()),
            };
        }
        if is_type(&headers, EVENT_STREAM_MIME_TYPE) {
            let events = events(response, id, room.clone());
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let mut frame = Gathered::new(Some(id.clone()), room.clone());
        let mut pieces = response.bytes_stream().boxed();
        let mut broken = None;
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) if frame.add(&piece).is_ok() => {}
                Ok(_) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        let messages = frame.end();
        let is_answered = messages.iter().any(|it| answered_id(it) == Some(&id));
        match is_answered {
            false => Err(broken.map_or_else(not_the_protocol, Failure::Client)),
            true if messages.len() == 1 => {
                let message = messages.into_iter().next().ok_or_else(not_the_protocol)?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            true => {
                let events = of_messages(&messages).into_iter().map(Ok);
                let events = stream::iter(events).boxed();
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
        }
    }

    /// What the status says alone: the server did not take the request.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
        let challenge = || {
            let header = headers.get(WWW_AUTHENTICATE);
            let header = header.and_then(|it| it.to_str().ok());
            header.unwrap_or_default().to_owned()
        };
        match status {
            StatusCode::UNAUTHORIZED => {
                let error = AuthRequiredError::new(challenge());
                Some(Failure::AuthRequired(error))
            }
            StatusCode::FORBIDDEN => {
                let error = InsufficientScopeError::new(challenge(), None);
                Some(Failure::InsufficientScope(error))
            }
            StatusCode::NOT_FOUND if self.has_session => Some(Failure::SessionExpired),
            StatusCode::TOO_MANY_REQUESTS => Some(of_status(status, headers)),
            _ => None,
        }
    }

    /// What an error says that is more than its status.
    fn failed(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let error = read(body, None).into_iter().find_map(|it| match it {
            JsonRpcMessage::Error(error) => Some(error),
            _ => None,
        });
        let Some(id) = &self.id else {
            // Nothing is asked, and the connection serves.
            return match error {
                Some(_) => Ok(StreamableHttpPostResponse::Accepted),
                None => Err(of_status(status, headers)),
            };
        };
        let is_answer = error.as_ref().is_some_and(|it| it.id.as_ref() == Some(id));
        let error = error.map(|it| it.error);
        if self.is_discovery && status.is_client_error() {
            // A server of an older protocol, whatever it says.
            let why = format!("HTTP {status}");
            let unknown = || ErrorData::new(ErrorCode::INVALID_REQUEST, why, None);
            return Ok(answer(error.unwrap_or_else(unknown), id));
        }
        match error {
            Some(error) if is_answer => Ok(answer(error, id)),
            // It names no request, as one that was not taken.
            Some(_) if self.has_session && status == StatusCode::BAD_REQUEST => {
                Err(Failure::SessionExpired)
            }
            // When to come again says more than the words.
            Some(_)
                if self.is_call
                    && status == StatusCode::SERVICE_UNAVAILABLE
                    && headers.contains_key(RETRY_AFTER) =>
            {
                Err(of_status(status, headers))
            }
            Some(error) if self.is_call && is_refusal(status, true, false) => {
                let error = ErrorData::new(REFUSED, error.message, None);
                Ok(answer(error, id))
            }
            Some(error) if !self.is_call => Ok(answer(error, id)),
            Some(_) | None => Err(of_status(status, headers)),
        }
    }
}

/// Whether a server that answers so has certainly not acted on the request. `is_error`: the answer has an
/// error of the protocol, which names no request. `is_put_off`: it says when to come again.
pub(crate) fn is_refusal(status: StatusCode, is_error: bool, is_put_off: bool) -> bool {
    match status {
        StatusCode::BAD_REQUEST => is_error,
        // Proxies also answer so when the server broke the connection, and had the request.
        StatusCode::SERVICE_UNAVAILABLE => is_error || is_put_off,
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::TOO_MANY_REQUESTS => true,
        _ => false,
    }
}

fn answer(error: ErrorData, id: &RequestId) -> StreamableHttpPostResponse {
    StreamableHttpPostResponse::Json(JsonRpcMessage::error(error, Some(id.clone())), None)
}

/// The request that a message answers.
pub(crate) fn answered_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

fn of_status(status: StatusCode, headers: &HeaderMap) -> Failure {
    let after = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok());
    HttpStatusError::new(status.as_u16(), after.map(str::to_owned)).into()
}

fn not_the_protocol() -> Failure {
    Failure::UnexpectedEndOfStream
}

fn is_type(headers: &HeaderMap, expected: &str) -> bool {
    let found = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let found = found.and_then(|it| it.split(';').next());
    found.is_some_and(|it| it.trim().eq_ignore_ascii_case(expected))
}

/// The beginning of a body, as far as it comes.
async fn body(response: RawResponse, most: usize) -> Vec<u8> {
    let mut pieces = response.bytes_stream().boxed();
    let mut body = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        let room = most - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if body.len() == most {
            break;
        }
    }
    body
}

/// The events of an answer. Those before a break come first.
fn events(response: RawResponse, id: RequestId, room: Room) -> Stream {
    let mut events = Events::new(Some(id), room);
    let pieces = response.bytes_stream().map(Some);
    let pieces = pieces.chain(stream::iter([None]));
    let ended = pieces.flat_map(move |piece| {
        let ended: Vec<Result<Sse, SseError>> = match piece {
            Some(Ok(piece)) => match events.add(&piece) {
                Ok(ended) => ended.into_iter().map(Ok).collect(),
                Err(_) => vec![Err(SseError::Body(Box::new(io::Error::other(
                    "an event is too long",
                ))))],
            },
            Some(Err(error)) => {
                let broken = Err(SseError::Body(Box::new(error)));
                let ended = events.end().into_iter().map(Ok);
                ended.chain([broken]).collect()
            }
            None => events.end().into_iter().map(Ok).collect(),
        };
        stream::iter(ended)
    });
    ended.boxed()
}

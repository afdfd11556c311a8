//! Any server that speaks the OpenAI chat completions: the real one, and the local ones.
//!
//! What servers do differently is met here, so that callers see one behaviour:
//!
//! - tool calls arrive whole or in pieces, with or without an index or an id; callers get them
//!   whole, with ids that are unique in the conversation;
//! - a call in the history whose arguments are not JSON is sent as
//!   `{"invalid_json": "<what the model wrote>"}`, because many servers parse it and would refuse
//!   the whole conversation for ever;
//! - a failed tool's result begins with `error: `, as the protocol has no mark for it;
//! - usage that is not reported is estimated, so that budgets hold all the same;
//! - an error may come as a status, inside an answer of status 200, or inside a stream.
//!
//! The key travels in a header that is marked sensitive, and redirects are not followed.

mod config;
mod fault;
mod reply;
mod request;
mod stream;
mod wire;

pub use config::{MaxTokensField, OpenAiConfig};

use crate::clean::Cleaner;
use crate::tokens::estimate_tokens;
use crate::{ChatReply, ChatRequest, Model, ModelError, ModelInfo, StreamEvent};
use async_trait::async_trait;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Message;
use cairn_http::{HttpClient, HttpConfig, HttpResponse, build_client};
use futures::stream::BoxStream;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reply::{Asked, Draft};
use std::sync::Arc;

/// A model behind an OpenAI-compatible server.
#[derive(Debug)]
pub struct OpenAi {
    /// For whole replies: limited in all, for a model may think long before the first byte.
    whole: HttpClient,
    /// For streams: limited in silence too.
    streaming: HttpClient,
    url: String,
    headers: HeaderMap,
    max_tokens_field: MaxTokensField,
    stream_usage: bool,
    provider: Arc<Provider>,
}

/// What a reply needs to know of its provider after the request is gone.
#[derive(Debug)]
struct Provider {
    info: ModelInfo,
    cleaner: Cleaner,
}

impl OpenAi {
    /// Checks the configuration and builds the clients; connects to nothing yet.
    ///
    /// # Errors
    /// A failure of kind Config that names the setting.
    pub fn new(config: OpenAiConfig) -> Result<Self, Failure> {
        let endpoint = config.check()?;
        let limits = HttpConfig {
            connect_timeout: config.connect_timeout,
            total_timeout: Some(config.total_timeout),
            idle_timeout: None,
            max_response_bytes: config.max_response_bytes,
            ..HttpConfig::default()
        };
        let client = |limits: &HttpConfig| {
            build_client(limits).map_err(|error| {
                Failure::new(FailureKind::Config, "http_client", error.with_causes())
            })
        };
        Ok(Self {
            whole: client(&limits)?,
            streaming: client(&HttpConfig {
                idle_timeout: Some(config.idle_timeout),
                ..limits
            })?,
            url: endpoint.url,
            headers: endpoint.headers,
            max_tokens_field: config.max_tokens_field,
            stream_usage: config.stream_usage,
            provider: Arc::new(Provider {
                info: ModelInfo {
                    provider: "openai".to_owned(),
                    name: config.model,
                    window_tokens: config.window_tokens,
                    input_nano_usd_per_million: config.input_nano_usd_per_million,
                    output_nano_usd_per_million: config.output_nano_usd_per_million,
                },
                cleaner: endpoint.cleaner,
            }),
        })
    }

    /// Sends a request and returns its answer if the status is good.
    async fn send(&self, request: &ChatRequest, stream: bool) -> Result<HttpResponse, ModelError> {
        let body = request::body(self, request, stream)?;
        let client = if stream { &self.streaming } else { &self.whole };
        let mut post = client
            .post(&self.url)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body);
        if stream {
            // A compressing proxy would hold pieces back.
            post = post.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let response = client.send(post).await?;
        tracing::debug!(
            model = self.provider.info.name,
            status = response.status().as_u16(),
            elapsed = ?response.elapsed(),
            "model answered"
        );
        if response.status() == http::StatusCode::OK {
            Ok(response)
        } else {
            Err(fault::of_response(response, &self.provider.cleaner).await)
        }
    }

    async fn whole_reply(
        &self,
        response: HttpResponse,
        asked: Asked,
    ) -> Result<ChatReply, ModelError> {
        let body = response.bytes().await?;
        let reply = wire::Reply::parse(&body, &self.provider.cleaner)?;
        Draft::of_whole(reply)?.finish(&asked, &self.provider)
    }
}

#[async_trait]
impl Model for OpenAi {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let response = self.send(request, false).await?;
        self.whole_reply(response, Asked::of(request)).await
    }

    /// Returns once the first piece of the reply is there, so that an error which comes as the
    /// first event is an error of this call and keeps its kind.
    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let response = self.send(request, true).await?;
        let asked = Asked::of(request);
        let kind = response.headers().get(CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
            // Some servers do not stream, and do not say so.
            let reply = self.whole_reply(response, asked).await?;
            let events = crate::stream::reply_events(reply);
            return Ok(Box::pin(futures::stream::iter(events)));
        }
        stream::events(response, asked, Arc::clone(&self.provider)).await
    }

    fn estimate_tokens(&self, messages: &[Message]) -> u64 {
        estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        self.provider.info.clone()
    }
}

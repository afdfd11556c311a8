//! Anthropic's Messages API, and servers that speak it.
//!
//! What differs from a plain list of messages is met here, so that callers see one behaviour:
//!
//! - system messages at the beginning become the `system` field, later ones the user's; messages of
//!   one role that follow each other become one, so that the results of several calls are one
//!   message, results before text;
//! - pictures and documents of a tool's result stand in the result, or behind it if it tells of a failure.
//!   They, and those that the user sends, go to a model that sees; a line stands for them with any other one;
//! - every list of messages is made valid: texts with nothing in them are left out, each call has
//!   its result in the next message, a result without its call becomes text, and a conversation
//!   that does not begin and end with the user is made to, because the server refuses anything else;
//! - a call in the history whose arguments are no JSON object is sent as
//!   `{"invalid_json": "<what the model wrote>"}`;
//! - where tools are offered or some messages never change, the question is marked for the server's
//!   cache, because the same beginning comes again with the next turn; usage counts the cached
//!   tokens as sent, and their prices are their own;
//! - thinking is not requested. If it comes, it is kept with its signature and goes back to the same
//!   model only; so do blocks of other kinds, and the fields of calls that the protocol does not name;
//! - an error may come as a status, or in the middle of a stream. The end of a reply may say that the
//!   server gave it up, which is an error too.
//!
//! The key travels in a header that is marked sensitive, and redirects are not followed.

mod reply;
mod request;
mod wire;

use crate::server::schema::SchemaForm;
use crate::server::{Dialect, Server, ServerConfig};
use crate::tokens::estimate_tokens;
use crate::{ChatReply, ChatRequest, Model, ModelError, ModelInfo, StreamEvent};
use async_trait::async_trait;
use cairn_engine::failure::Failure;
use cairn_engine::message::Message;
use futures::stream::BoxStream;
use std::sync::Arc;

/// The provider's name.
pub const ANTHROPIC: &str = "anthropic";
/// Where the provider's own server is.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The window of the models since Claude 3, in tokens.
pub const WINDOW_TOKENS: u64 = 200_000;
/// The limit on a reply's length where none is set: the protocol insists on one, and every model
/// since Claude 3.5 admits this.
pub const MAX_OUTPUT_TOKENS: u32 = 8_192;
/// The version of the protocol that is spoken here.
const VERSION: &str = "2023-06-01";

static DIALECT: Dialect = Dialect {
    provider: ANTHROPIC,
    own_host: "api.anthropic.com",
    path: "/v1/messages",
    schemas: SchemaForm::Anthropic,
    key_header: |key| ("x-api-key", key.to_owned()),
    whole: reply::whole,
    piece: reply::piece,
};

/// Settings of a model with Anthropic's Messages API.
#[derive(Debug, Clone)]
pub struct AnthropicConfig {
    /// Where it is; the base URL goes up to and without `/v1/messages`.
    pub server: ServerConfig,
}

impl AnthropicConfig {
    /// [`ServerConfig::new`] with the window of Anthropic's models.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self::from(ServerConfig {
            window_tokens: WINDOW_TOKENS,
            ..ServerConfig::new(base_url, model)
        })
    }
}

impl From<ServerConfig> for AnthropicConfig {
    fn from(server: ServerConfig) -> Self {
        Self { server }
    }
}

/// A model behind Anthropic's Messages API.
#[derive(Debug)]
pub struct Anthropic {
    server: Server,
}

impl Anthropic {
    /// Checks the configuration and builds the clients; connects to nothing yet.
    ///
    /// # Errors
    /// A failure of kind Config that names the setting.
    pub fn new(mut config: AnthropicConfig) -> Result<Self, Failure> {
        // Other libraries want the address with the version in it; both are understood.
        let base = config.server.base_url.trim().trim_end_matches('/');
        config.server.base_url = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        let mut server = Server::new(config.server, &DIALECT)?;
        server.set_header("anthropic-version", VERSION);
        Ok(Self { server })
    }

    /// The body of a streamed request, byte for byte the same for the same request.
    ///
    /// # Errors
    /// The request is too large.
    pub fn request_body(&self, request: &ChatRequest) -> Result<Vec<u8>, ModelError> {
        request::body(self, request, true, self.server.omitted())
    }
}

#[async_trait]
impl Model for Anthropic {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let encode = |omitted| request::body(self, request, false, omitted);
        self.server.chat(request, &encode).await
    }

    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let encode = |omitted| request::body(self, request, true, omitted);
        self.server.chat_stream(request, &encode).await
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        self.server.info().clone()
    }
}

//! Any server that speaks the OpenAI chat completions: the real one, and the local ones.
//!
//! What servers do differently is met here, so that callers see one behaviour:
//!
//! - tool calls arrive whole or in pieces, with or without an index or an id, or with another id in
//!   each piece; callers get them whole, with ids that are unique in the conversation;
//! - a call in the history whose arguments are not JSON is sent as
//!   `{"invalid_json": "<what the model wrote>"}`, because many servers parse it and would refuse
//!   the whole conversation for ever;
//! - a failed tool's result begins with `error: `, as the protocol has no mark for it;
//! - usage that is not reported is estimated, so that budgets hold all the same;
//! - reasoning (`reasoning_content`, `reasoning`, `reasoning_details`) is kept beside the text. It
//!   goes back to the same model only, in the field in which it came. Parts of type `thinking` are
//!   left out; a refusal is the reply's text;
//! - fields of a message or of a call that are no part of the protocol, such as `extra_content`, are
//!   kept and go back to the same model only, in their place;
//! - a whole message at the end of a stream adds only what was not streamed;
//! - a tool's result is text alone, so its pictures follow as a message of the user. They, and those that
//!   the user sends, go to a model that sees; a line stands for them with any other one;
//! - every list of messages is made valid: each call has its result in the next messages, a result
//!   without its call becomes text, and empty messages are left out;
//! - an error may come as a status, inside an answer of status 200, or inside a stream: as data, in
//!   an event or a field `error`, or as JSON outside of events. The end of a reply may say that the
//!   server gave it up, which is an error too.
//!
//! The key travels in a header that is marked sensitive, and redirects are not followed.

mod calls;
mod reasoning;
mod reply;
mod request;
mod wire;

use crate::server::schema::SchemaForm;
use crate::server::{Dialect, OptionalField, Server, ServerConfig};
use crate::tokens::estimate_tokens;
use crate::{ChatReply, ChatRequest, Model, ModelError, ModelInfo, StreamEvent};
use async_trait::async_trait;
use cairn_engine::failure::Failure;
use cairn_engine::message::Message;
use futures::stream::BoxStream;
use std::sync::Arc;

/// The provider's name.
pub const OPENAI: &str = "openai";
/// Where the provider's own server is.
pub const BASE_URL: &str = "https://api.openai.com/v1";
const OWN_HOST: &str = "api.openai.com";

pub(crate) static DIALECT: Dialect = Dialect {
    provider: OPENAI,
    own_host: OWN_HOST,
    path: "/chat/completions",
    schemas: SchemaForm::OpenAi,
    key_header: |key| ("authorization", format!("Bearer {key}")),
    whole: reply::whole,
    piece: reply::piece,
};

/// Settings of an OpenAI-compatible model.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// Where it is; the base URL goes up to and without `/chat/completions`.
    pub server: ServerConfig,
}

impl OpenAiConfig {
    /// [`ServerConfig::new`].
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self::from(ServerConfig::new(base_url, model))
    }
}

impl From<ServerConfig> for OpenAiConfig {
    fn from(server: ServerConfig) -> Self {
        Self { server }
    }
}

/// A model behind an OpenAI-compatible server.
#[derive(Debug)]
pub struct OpenAi {
    server: Server,
}

impl OpenAi {
    /// Checks the configuration and builds the clients; connects to nothing yet.
    ///
    /// # Errors
    /// A failure of kind Config that names the setting.
    pub fn new(mut config: OpenAiConfig) -> Result<Self, Failure> {
        // Its newer models refuse the old name.
        if config.server.is_at(OWN_HOST) {
            config.server.omit.push(OptionalField::MaxTokens);
        }
        Ok(Self {
            server: Server::new(config.server, &DIALECT)?,
        })
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
impl Model for OpenAi {
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

//! Language models: one trait, its providers, retries, prompts.
//!
//! - [`chat`]: the [`Model`] trait and what goes through it; [`error`]: what can go wrong.
//! - [`registry`]: the models of a process, by name.
//! - [`offline`]: the offline default, rules instead of a model; [`openai`]: any
//!   OpenAI-compatible server; [`anthropic`]: Anthropic's Messages API; [`server`]: what these two
//!   share; [`recorded`]: replies from a file.
//! - [`retry`]: trying again where that may help; [`stream`]: reading streamed replies.
//! - [`prompt`]: the built-in prompts, templates, and putting messages together.
//! - [`tokens`]: counting without asking; [`prices`]: what tokens cost.

pub mod anthropic;
pub mod chat;
mod clean;
mod empty;
pub mod error;
pub mod offline;
pub mod openai;
pub mod prices;
pub mod prompt;
pub mod recorded;
pub mod registry;
pub mod retry;
pub mod server;
pub mod stream;
pub mod tokens;
pub mod traced;

pub use anthropic::{Anthropic, AnthropicConfig};
pub use cairn_engine::message::FinishReason;
pub use chat::*;
pub use error::ModelError;
pub use offline::Offline;
pub use openai::{OpenAi, OpenAiConfig};
pub use prices::{PriceBook, Prices};
pub use prompt::{
    PromptComposer, PromptError, PromptTemplate, PromptTemplateRegistry, TemplateContext,
};
pub use recorded::Recorded;
pub use registry::ModelRegistry;
pub use retry::{Jitter, Progress, RetryPolicy, chat_with_retry, stream_with_retry};
pub use server::{OptionalField, ServerConfig};

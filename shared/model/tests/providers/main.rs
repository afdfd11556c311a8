//! The providers, retries and secrets: replies of a real server in this process, of a recording,
//! and of a scripted model.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod anthropic_chat;
mod anthropic_errors;
mod anthropic_stream;
mod limits;
mod omitted;
mod openai_chat;
mod openai_errors;
mod openai_oddities;
mod openai_reasoning;
mod openai_stream;
mod recorded;
mod retry;
mod secrets;
mod shapes;
mod support;
mod tool_schemas;

//! The providers, retries and secrets: replies of a real server in this process, of a recording,
//! and of a scripted model.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod openai_chat;
mod openai_errors;
mod openai_stream;
mod recorded;
mod retry;
mod secrets;
mod support;

//! Trying again where that may help.
//!
//! Waits grow exponentially with jitter. A provider that says when to come back is not asked
//! earlier. If that is later than the policy waits in all, the retries end at once, and the error
//! names the time.
//!
//! A reply with neither text nor calls is a failed attempt too. It is retried once: a second one shows
//! that the model has no other answer, and each costs as much as a reply. A refused connection of this
//! machine is retried once, because a person has to start that server.

use crate::{ChatReply, ChatRequest, Model, ModelError, StreamEvent, empty, stream};
use backon::{BackoffBuilder, ExponentialBuilder};
use cairn_engine::message::Usage;
use futures::future::OptionFuture;
use std::time::Duration;
use tokio::time::Instant;

/// How often, and how long, a call is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// The first wait, before jitter.
    pub min_delay: Duration,
    /// The longest wait of its own, jitter included. What the provider asks for comes on top.
    pub max_delay: Duration,
    /// By what a wait is longer than the one before.
    pub factor: f32,
    /// Most retries after the first attempt.
    pub max_retries: u32,
    /// No wait is begun that would end later than this after the first attempt began, whoever asks
    /// for it.
    pub max_elapsed: Duration,
    /// How waits are spread.
    pub jitter: Jitter,
}

/// How waits are spread, so that many callers do not come back at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all.
    Off,
    /// Each wait is prolonged by a random part of itself.
    Random,
    /// As [`Jitter::Random`], from this seed: the same waits each time.
    Seeded(u64),
}

impl Default for RetryPolicy {
    /// 0.5 s, doubled up to 30 s, 8 retries within 5 minutes, with jitter.
    fn default() -> Self {
        Self {
            min_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            factor: 2.0,
            max_retries: 8,
            max_elapsed: Duration::from_secs(300),
            jitter: Jitter::Random,
        }
    }
}

impl RetryPolicy {
    /// One attempt and no more.
    pub fn never() -> Self {
        Self {
            max_retries: 0,
            ..Self::default()
        }
    }

    fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let delays = ExponentialBuilder::new()
            .with_min_delay(self.min_delay)
            .with_max_delay(self.max_delay)
            .with_factor(self.factor)
            .with_max_times(self.max_retries as usize);
        match self.jitter {
            Jitter::Off => delays,
            Jitter::Random => delays.with_jitter(),
            Jitter::Seeded(seed) => delays.with_jitter().with_jitter_seed(seed),
        }
        .build()
    }

    /// The wait before the next attempt. What the provider asks for comes on top of our own wait:
    /// it tells all its callers the same, and jitter has to keep them apart.
    fn wait(&self, own: Duration, error: &ModelError) -> Duration {
        let asked = error.retry_after().unwrap_or_default();
        own.min(self.max_delay).saturating_add(asked)
    }
}

/// Asks for a whole reply, again and again as the policy allows.
///
/// `on_retry` is told of each failed attempt that will be repeated: its number, from 1, its
/// error, and the wait that now begins. Dropping the future ends the call and the waiting. The
/// policy does not cut an attempt short; that is for the provider's own limits of time.
///
/// # Errors
/// The last attempt's error: one that no retry can help, or any once the policy is used up. The
/// latter stays recoverable: the same request may succeed later. [`ModelError::Empty`] after the second
/// empty reply, [`ModelError::ConnectionRefused`] after the second refused connection.
pub async fn chat_with_retry(
    model: &dyn Model,
    request: &ChatRequest,
    policy: &RetryPolicy,
    mut on_retry: impl FnMut(u32, &ModelError, Duration),
) -> Result<ChatReply, ModelError> {
    let mut attempts = Attempts::new(policy);
    loop {
        let outcome = model.chat(request).await;
        let error = match outcome.and_then(|reply| attempts.accept(reply)) {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let (error, wait) = attempts.wait_after(error)?;
        on_retry(attempts.failed, &error, wait);
        drop(error);
        tokio::time::sleep(wait).await;
    }
}

/// What a caller of [`stream_with_retry`] sees while a reply comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// More of the reply's text, never empty.
    Text(&'a str),
    /// The attempt failed, and another begins after a wait. Everything seen so far is void: the
    /// reply begins anew.
    Retry {
        /// Number of the failed attempt, from 1.
        attempt: u32,
        /// Why it failed.
        error: &'a ModelError,
        /// The wait that now begins.
        wait: Duration,
    },
}

/// As [`chat_with_retry`], for a streamed reply: the same reply in the end, and `on_progress` sees
/// it grow. No more of the reply is read, and no wait begins, before what `on_progress` returns is ready.
///
/// If this ends with an error, what was seen of the reply is void too.
///
/// # Errors
/// As [`chat_with_retry`].
pub async fn stream_with_retry<F: Future<Output = ()>>(
    model: &dyn Model,
    request: &ChatRequest,
    policy: &RetryPolicy,
    mut on_progress: impl FnMut(Progress<'_>) -> F,
) -> Result<ChatReply, ModelError> {
    let mut attempts = Attempts::new(policy);
    loop {
        let on_event = |event: &StreamEvent| {
            OptionFuture::from(match event {
                StreamEvent::AssistantTextDelta { text } => Some(on_progress(Progress::Text(text))),
                StreamEvent::ToolCall(_)
                | StreamEvent::TurnComplete { .. }
                | StreamEvent::Error { .. } => None,
            })
        };
        let outcome = match model.chat_stream(request).await {
            Ok(events) => stream::collect_paced(events, on_event).await,
            Err(error) => Err(error),
        };
        let error = match outcome.and_then(|reply| attempts.accept(reply)) {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let (error, wait) = attempts.wait_after(error)?;
        let retry = Progress::Retry {
            attempt: attempts.failed,
            error: &error,
            wait,
        };
        on_progress(retry).await;
        drop(error);
        tokio::time::sleep(wait).await;
    }
}

struct Attempts<'a, D> {
    policy: &'a RetryPolicy,
    delays: D,
    started: Instant,
    failed: u32,
    /// There was an empty reply.
    was_empty: bool,
    /// There was a refused connection.
    was_refused: bool,
    /// What empty replies used up. It counts with the reply that follows them, or with the error.
    spent: Usage,
}

impl<'a> Attempts<'a, ()> {
    fn new(policy: &'a RetryPolicy) -> Attempts<'a, impl Iterator<Item = Duration> + Send> {
        Attempts {
            policy,
            delays: policy.delays(),
            started: Instant::now(),
            failed: 0,
            was_empty: false,
            was_refused: false,
            spent: Usage::default(),
        }
    }
}

impl<D: Iterator<Item = Duration>> Attempts<'_, D> {
    /// The reply, with what empty replies before it used up.
    ///
    /// # Errors
    /// [`ModelError::Empty`].
    fn accept(&mut self, mut reply: ChatReply) -> Result<ChatReply, ModelError> {
        if let Some(content) = empty::content_of(&reply) {
            self.spent.add(&reply.usage);
            let usage = self.spent;
            return Err(ModelError::Empty { content, usage });
        }
        reply.usage.add(&self.spent);
        Ok(reply)
    }

    /// The wait before the next attempt, with the error again.
    ///
    /// # Errors
    /// The error, if there is no further attempt.
    fn wait_after(&mut self, error: ModelError) -> Result<(ModelError, Duration), ModelError> {
        self.failed += 1;
        let is_second = match &error {
            ModelError::Empty { .. } => std::mem::replace(&mut self.was_empty, true),
            ModelError::ConnectionRefused { .. } => std::mem::replace(&mut self.was_refused, true),
            _ => false,
        };
        if is_second || !error.is_retryable() {
            return Err(error);
        }
        let Some(own) = self.delays.next() else {
            return Err(error);
        };
        let wait = self.policy.wait(own, &error);
        if self.started.elapsed().saturating_add(wait) > self.policy.max_elapsed {
            return Err(error);
        }
        Ok((error, wait))
    }
}

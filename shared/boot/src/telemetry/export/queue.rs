//! Spans that wait, and what becomes of them.
//!
//! Whoever ends a span is never held up and never writes a log line for it. What was lost is told by
//! the thread that exports, and at most once a minute.

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines about the same trouble.
const SILENCE: Duration = Duration::from_secs(60);

/// Counts the spans that wait and those that are lost.
#[derive(Debug)]
pub(super) struct Queue {
    limit: usize,
    waiting: AtomicUsize,
    lost: AtomicU64,
    reported: Mutex<Option<Instant>>,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            waiting: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            reported: Mutex::new(None),
        }
    }

    /// Whether there is room for one more, which has it then.
    fn enter(&self) -> bool {
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < self.limit;
        if !has_room {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Tells of lost spans, unless that was done just now.
    fn report(&self, result: &OTelSdkResult, now: Instant) {
        if self.lost.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_some_and(|reported| now.duration_since(reported) < SILENCE) {
            return;
        }
        *reported = Some(now);
        let lost = self.lost.swap(0, Ordering::Relaxed);
        match result {
            Ok(()) => tracing::warn!(
                lost,
                "spans were lost: more ended than the collector took in time"
            ),
            Err(error) => tracing::warn!(
                %error,
                lost,
                "spans were lost: the collector did not take them; this is said once a minute"
            ),
        }
    }
}

/// Lets spans wait, as long as there is room.
#[derive(Debug)]
pub(super) struct Bounded<P> {
    inner: P,
    queue: Arc<Queue>,
}

impl<P> Bounded<P> {
    pub(super) fn new(inner: P, queue: Arc<Queue>) -> Self {
        Self { inner, queue }
    }
}

impl<P: SpanProcessor> SpanProcessor for Bounded<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queue.enter() {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Sends spans, and tells if that fails.
#[derive(Debug)]
pub(super) struct Reporting<E> {
    inner: E,
    queue: Arc<Queue>,
}

impl<E> Reporting<E> {
    pub(super) fn new(inner: E, queue: Arc<Queue>) -> Self {
        Self { inner, queue }
    }
}

impl<E: SpanExporter> SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.queue.waiting.fetch_sub(spans, Ordering::Relaxed);
        let result = self.inner.export(batch).await;
        if result.is_err() {
            self.queue.lost.fetch_add(spans as u64, Ordering::Relaxed);
        }
        self.queue.report(&result, Instant::now());
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;

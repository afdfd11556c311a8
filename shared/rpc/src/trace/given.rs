//! Where finished spans go, and the ids that are given to spans instead of random ones.

use opentelemetry::global::{BoxedTracer, ObjectSafeTracer};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static RECORDER: OnceLock<Recorder> = OnceLock::new();

thread_local! {
    static GIVEN: Cell<Ids> = const { Cell::new(Ids { trace: None, span: None }) };
}

struct Recorder {
    tracer: BoxedTracer,
    is_content_wanted: bool,
}

/// The ids of the next span that is begun on this thread; what is not given is random.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ids {
    pub(super) trace: Option<u128>,
    pub(super) span: Option<u64>,
}

/// From now on this process records spans with this tracer; its provider's generator of ids asks
/// [`given_trace_id`] and [`given_span_id`] first. `is_content_wanted` says whether what models and
/// tools say may leave the process with them. Only the first call counts.
pub fn install(tracer: Box<dyn ObjectSafeTracer + Send + Sync>, is_content_wanted: bool) {
    let recorder = Recorder {
        tracer: BoxedTracer::new(tracer),
        is_content_wanted,
    };
    // Two exporters are two sets of settings, and nobody could say which one holds.
    let _ = RECORDER.set(recorder);
}

/// Other processes take part, and may record what this one does not.
static OTHERS: AtomicBool = AtomicBool::new(false);

pub(crate) fn other_processes() {
    OTHERS.store(true, Ordering::Relaxed);
}

/// Whether calls are to tell which trace they belong to: somebody may record it. Within one process
/// without an exporter that would be work for nobody.
pub fn is_passed_on() -> bool {
    OTHERS.load(Ordering::Relaxed) || is_recording()
}

/// Whether anybody records spans in this process: what is only made for them can be left out if
/// not.
pub fn is_recording() -> bool {
    RECORDER.get().is_some()
}

/// Whether prompts, replies, and arguments and results of tools may be put on spans. They may not
/// unless somebody said so in the settings.
pub fn is_content_wanted() -> bool {
    RECORDER
        .get()
        .is_some_and(|recorder| recorder.is_content_wanted)
}

/// The trace id that the span that begins on this thread must have.
pub fn given_trace_id() -> Option<u128> {
    GIVEN.get().trace
}

/// The id that the span that begins on this thread must have.
pub fn given_span_id() -> Option<u64> {
    GIVEN.get().span
}

pub(super) fn tracer() -> Option<&'static BoxedTracer> {
    RECORDER.get().map(|recorder| &recorder.tracer)
}

/// Runs `begin`, which begins a span, with these ids.
pub(super) fn with_ids<T>(ids: Ids, begin: impl FnOnce() -> T) -> T {
    struct Restore(Ids);
    impl Drop for Restore {
        fn drop(&mut self) {
            GIVEN.set(self.0);
        }
    }
    let _restore = Restore(GIVEN.replace(ids));
    begin()
}

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
    /// The ids of traces that are recorded are below this, as OpenTelemetry counts them.
    bound: u64,
}

/// The ids of the next span that is begun on this thread; what is not given is random.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ids {
    pub(super) trace: Option<u128>,
    pub(super) span: Option<u64>,
}

/// From now on this process records spans with this tracer; its provider's generator of ids asks
/// [`given_trace_id`] and [`given_span_id`] first. `is_content_wanted` says whether what models and
/// tools say may leave the process with them. `ratio` is the part of the traces without a caller's that
/// are recorded, 0 to 1. Only the first call counts.
pub fn install(
    tracer: Box<dyn ObjectSafeTracer + Send + Sync>,
    is_content_wanted: bool,
    ratio: f64,
) {
    let recorder = Recorder {
        tracer: BoxedTracer::new(tracer),
        is_content_wanted,
        bound: bound(ratio),
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

/// Whether a trace that begins here is recorded. Follows from its id, as in other programs with the same
/// ratio. A process without an exporter leaves it to the others.
pub fn is_sampled(trace_id: u128) -> bool {
    let recorder = RECORDER.get();
    recorder.is_none_or(|recorder| is_below(trace_id, recorder.bound))
}

fn bound(ratio: f64) -> u64 {
    (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64
}

fn is_below(trace_id: u128, bound: u64) -> bool {
    // The lower half of the id, of which one bit is left out.
    ((trace_id as u64) >> 1) < bound
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_the_traces_that_is_recorded_follows_from_their_ids() {
        let low = 0x4bf9_2f35_77b3_4da6_0000_0000_0000_0001;
        let high = 0x4bf9_2f35_77b3_4da6_ffff_ffff_ffff_ffff;
        let middle = 0x4bf9_2f35_77b3_4da6_7fff_ffff_ffff_ffff;
        for (ratio, expected) in [
            (0.0, [false, false, false]),
            (0.1, [true, false, false]),
            (0.5, [true, true, false]),
            (1.0, [true, true, true]),
        ] {
            let sampled = [low, middle, high].map(|id| is_below(id, bound(ratio)));
            assert_eq!(sampled, expected, "{ratio}");
        }
    }
}

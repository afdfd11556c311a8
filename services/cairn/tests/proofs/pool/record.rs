//! What the proof knows: which executor had which capability and when, and how many questions each has open.

use super::{CAPABILITIES, HELD_MS, LOOK, OVERLAP, Options, REGISTERED, tool_of};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An attempt may be placed by what was so this long before, and its event may come this long after: the first of a
/// placement at once comes with the reply.
const SLACK_MS: i64 = 3000 + HELD_MS.cast_signed();

/// Milliseconds since 1970 by this machine's clock, which the store's is here.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// Changes of one executor's capability: when, and whether it has it from then on.
type Changes = Vec<(i64, bool)>;

/// The record, which the model, the sessions and the changes share.
pub(super) struct Record {
    seed: u64,
    slots: usize,
    /// By executor and capability.
    history: Mutex<Vec<Vec<Changes>>>,
    /// Open questions by executor.
    open: Arc<Vec<AtomicUsize>>,
    questions: AtomicU64,
    at_once: AtomicBool,
    findings: Mutex<Vec<String>>,
}

/// A question of an executor that is open.
#[derive(Debug)]
pub(super) struct Open {
    all: Arc<Vec<AtomicUsize>>,
    executor: Option<usize>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(open) = self.executor.and_then(|number| self.all.get(number)) {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Record {
    /// Each executor has some of the capabilities from the beginning.
    pub(super) fn new(options: &Options) -> Self {
        let record = Self {
            seed: options.seed,
            slots: options.slots,
            history: Mutex::new(vec![vec![Vec::new(); CAPABILITIES + 1]; options.executors]),
            open: Arc::new(
                (0..options.executors)
                    .map(|_| AtomicUsize::new(0))
                    .collect(),
            ),
            questions: AtomicU64::new(0),
            at_once: AtomicBool::new(false),
            findings: Mutex::default(),
        };
        for executor in 0..options.executors {
            for capability in record.some_capabilities(&("first", executor)) {
                record.set(executor, capability, true);
            }
        }
        record
    }

    /// The same number for the same values.
    pub(super) fn roll(&self, what: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        hasher.finish()
    }

    /// One of so many.
    pub(super) fn pick(&self, what: &impl Hash, count: usize) -> usize {
        let rolled = self.roll(what) % u64::try_from(count).expect("a small number").max(1);
        usize::try_from(rolled).expect("a small number")
    }

    /// One to three capabilities that tools give.
    pub(super) fn some_capabilities(&self, what: &impl Hash) -> BTreeSet<usize> {
        let count = 1 + self.pick(&(what, "count"), 3);
        (0..count)
            .map(|number| self.pick(&(what, number), CAPABILITIES))
            .collect()
    }

    /// The tools that an executor may use, as a setting.
    pub(super) fn tools(&self, executor: usize) -> String {
        let has = |capability: &usize| self.has(executor, *capability);
        let tools = (0..CAPABILITIES).filter(has).map(tool_of);
        tools.collect::<Vec<_>>().join(",")
    }

    /// An executor has a capability from now on, or lacks it.
    pub(super) fn set(&self, executor: usize, capability: usize, has: bool) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history[executor][capability].push((now(), has));
    }

    /// Whether it has it now.
    pub(super) fn has(&self, executor: usize, capability: usize) -> bool {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let last = history[executor][capability].last();
        last.is_some_and(|(_, has)| *has)
    }

    /// Whether it has it by a registration now.
    pub(super) fn is_registered(&self, executor: usize) -> bool {
        self.has(executor, REGISTERED)
    }

    /// Whether it had it at any time when an attempt can have been placed whose event has this time.
    fn had(&self, executor: usize, capability: usize, at: i64) -> bool {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(changes) = history.get(executor).map(|it| &it[capability]) else {
            return false;
        };
        let (from, to) = (at - SLACK_MS, at + SLACK_MS);
        let before = changes.iter().rev().find(|(when, _)| *when <= from);
        let mut within = changes
            .iter()
            .filter(|(when, _)| (from..=to).contains(when));
        before.is_some_and(|(_, has)| *has) || within.any(|(_, has)| *has)
    }

    /// Checks a placement: its executor has all that the step needs.
    pub(super) fn check_placed(&self, resources: &[String], needs: &BTreeSet<usize>, at: i64) {
        let id = resources.first().map(String::as_str).unwrap_or_default();
        let number = id.strip_prefix("executor-").and_then(|it| it.parse().ok());
        let Some(number) = number else {
            return self.finding(format!("an attempt is placed at {resources:?}"));
        };
        let lacking = needs.iter().filter(|it| !self.had(number, **it, at));
        for capability in lacking {
            self.finding(format!("{id} has a step that needs skill-{capability}"));
        }
    }

    /// A question of an executor comes, and is open until the value is dropped.
    pub(super) fn open(&self, executor: Option<usize>) -> Open {
        let all = self.open.clone();
        match executor.and_then(|number| all.get(number)) {
            None => self.finding("a question of no executor".to_owned()),
            Some(open) => {
                let now = open.fetch_add(1, Ordering::SeqCst) + 1;
                if now > self.slots && !self.soon_fits(open) {
                    self.finding(format!("{executor:?} has {now} questions open"));
                }
            }
        }
        Open { all, executor }
    }

    fn soon_fits(&self, open: &AtomicUsize) -> bool {
        let until = Instant::now() + OVERLAP;
        while Instant::now() < until {
            if open.load(Ordering::SeqCst) <= self.slots {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// How long the next question waits.
    pub(super) fn hold(&self) -> Duration {
        if self.at_once.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        Duration::from_millis(self.roll(&("hold", number)) % HELD_MS)
    }

    /// From now on the model answers at once, so that all sessions end soon.
    pub(super) fn answer_at_once(&self) {
        self.at_once.store(true, Ordering::Relaxed);
    }

    /// Something is wrong.
    pub(super) fn finding(&self, finding: String) {
        let findings = self.findings.lock();
        findings
            .unwrap_or_else(PoisonError::into_inner)
            .push(finding);
    }

    /// What is wrong.
    pub(super) fn findings(&self) -> Vec<String> {
        let findings = self.findings.lock();
        findings.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

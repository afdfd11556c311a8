//! How long a hook has for its answer, how often it is asked, and what counts if it fails.

use crate::{Asked, Hook, HookError};
use cairn_engine::hooks::{HookFailure, MAX_REASON, Point, Verdict};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long an answer may take if nothing else is set.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest timeout that can be set.
pub const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest timeout that can be set.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a hook that cannot be reached is asked again.
pub const REACHED_WITHIN: Duration = Duration::from_secs(30);
/// Before a hook that could not be reached is asked for the second time. Each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What counts as the answer of a hook that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// What the hook was asked about is not done.
    Block,
    /// The run continues.
    Proceed,
}

/// The limits of one hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long one answer may take.
    pub timeout: Duration,
    /// What counts if the hook fails. None for what its point says; see [`Point::blocks_on_error`].
    pub on_error: Option<OnError>,
}

/// Why no answer of a hook counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The kind of the failure.
    pub kind: HookFailure,
    /// In words; may be empty.
    pub why: String,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            on_error: None,
        }
    }
}

impl Policy {
    /// What counts at a point if the hook fails, with the reason of the failure. Also of an answer that the point does
    /// not take.
    pub fn after_failure(&self, point: Point, why: &str) -> Verdict {
        let by_point = match point.blocks_on_error() {
            true => OnError::Block,
            false => OnError::Proceed,
        };
        match self.on_error.unwrap_or(by_point) {
            // At a point that observes, no Block can count.
            OnError::Block if !point.observes() => {
                Verdict::Block(why[..why.floor_char_boundary(MAX_REASON)].to_owned())
            }
            OnError::Block | OnError::Proceed => Verdict::Proceed,
        }
    }
}

/// Asks a hook, for at most [`REACHED_WITHIN`] if it cannot be reached. Returns what counts, the failure of the hook if
/// it failed, and the time with all repetitions.
///
/// The answer is not checked against the point; see [`fault_of`](cairn_engine::hooks::fault_of).
pub async fn ask(
    hook: &dyn Hook,
    policy: &Policy,
    asked: &Asked,
) -> (Verdict, Option<Failed>, Duration) {
    let began = Instant::now();
    let answer = answer(hook, policy.timeout, asked).await;
    let took = began.elapsed();
    let point = asked.question.gate.point;
    match answer {
        Ok(verdict) => (verdict.shortened(), None, took),
        Err(failed) => {
            let (hook, at) = (asked.hook.as_str(), point.name());
            tracing::warn!(hook, point = at, error = failed.why, "hook failed");
            (policy.after_failure(point, &failed.why), Some(failed), took)
        }
    }
}

async fn answer(hook: &dyn Hook, within: Duration, asked: &Asked) -> Result<Verdict, Failed> {
    let failed = |kind, why| Failed { kind, why };
    let end = Instant::now() + REACHED_WITHIN;
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match timeout(within, hook.ask(asked)).await {
            Ok(Ok(verdict)) => return Ok(verdict),
            Ok(Err(HookError::Wrong(why))) => return Err(failed(HookFailure::Wrong, why)),
            Ok(Err(HookError::Unreachable(why))) => why,
            Err(_) => {
                let why = format!("it did not answer within {within:?}");
                return Err(failed(HookFailure::Late, why));
            }
        };
        if Instant::now() + pause >= end {
            let why = format!("it could not be reached for {REACHED_WITHIN:?}: {why}");
            return Err(failed(HookFailure::Unreachable, why));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::asked;
    use async_trait::async_trait;
    use std::sync::Mutex;

    type Answer = Result<Verdict, HookError>;

    /// Answers each try by its number, from 0; never if there is no answer. Keeps when it was asked.
    #[derive(Debug)]
    struct Script {
        answer: fn(usize) -> Option<Answer>,
        began: Instant,
        tries: Mutex<Vec<Duration>>,
    }

    #[async_trait]
    impl Hook for Script {
        async fn ask(&self, _: &Asked) -> Answer {
            let number = {
                let mut tries = self.tries.lock().unwrap();
                tries.push(self.began.elapsed());
                tries.len() - 1
            };
            match (self.answer)(number) {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    }

    /// What counts of a script before a tool call, why it failed, the time, and when it was asked.
    async fn run(
        answer: fn(usize) -> Option<Answer>,
    ) -> (Verdict, Option<HookFailure>, Duration, Vec<Duration>) {
        let script = Script {
            answer,
            began: Instant::now(),
            tries: Mutex::default(),
        };
        let (verdict, failed, took) = ask(&script, &Policy::default(), &asked("{}")).await;
        let failure = failed.map(|failed| failed.kind);
        (verdict, failure, took, script.tries.into_inner().unwrap())
    }

    fn unreachable() -> Option<Answer> {
        Some(Err(HookError::Unreachable("refused".to_owned())))
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_is_not_asked_for_again() {
        let (verdict, failure, took, tries) = run(|_| None).await;
        let why = "it did not answer within 5s".to_owned();
        assert_eq!(verdict, Verdict::Block(why));
        assert_eq!(failure, Some(HookFailure::Late));
        assert_eq!((took.as_secs(), tries.len()), (5, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_answer_is_not_asked_for_again() {
        let wrong = |_| Some(Err(HookError::Wrong("it is odd".to_owned())));
        let (verdict, failure, took, tries) = run(wrong).await;
        assert_eq!(verdict, Verdict::Block("it is odd".to_owned()));
        assert_eq!(failure, Some(HookFailure::Wrong));
        assert_eq!((took.as_secs(), tries.len()), (0, 1));
    }

    /// With on_error = "proceed", a Block that does not count would let everything pass.
    #[tokio::test(start_paused = true)]
    async fn a_block_with_a_long_reason_is_a_block() {
        let long = |_| Some(Ok(Verdict::Block("ä".repeat(MAX_REASON))));
        let (verdict, failure, ..) = run(long).await;
        assert_eq!(verdict, Verdict::Block("ä".repeat(MAX_REASON / 2)));
        assert_eq!(failure, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hook_that_is_reached_in_time_has_answered() {
        let third = |number| match number {
            2 => Some(Ok(Verdict::Skip("done".to_owned()))),
            _ => unreachable(),
        };
        let (verdict, failure, _, tries) = run(third).await;
        assert_eq!(verdict, Verdict::Skip("done".to_owned()));
        assert_eq!(failure, None);
        let tries: Vec<u128> = tries.iter().map(Duration::as_millis).collect();
        assert_eq!(tries.len(), 3);
        assert!((50..60).contains(&tries[1]), "{tries:?}");
        assert!((150..170).contains(&tries[2]), "{tries:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hook_is_given_up_that_is_not_reached_for_30_s() {
        let (verdict, failure, took, tries) = run(|_| unreachable()).await;
        let why = "it could not be reached for 30s: refused".to_owned();
        assert_eq!(verdict, Verdict::Block(why));
        assert_eq!(failure, Some(HookFailure::Unreachable));
        assert!((28..30).contains(&took.as_secs()), "{took:?}");
        let pauses = tries.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = pauses.max().unwrap();
        assert!((2_000..2_010).contains(&longest.as_millis()), "{longest:?}");
    }

    #[test]
    fn what_counts_after_a_failure_is_set_or_follows_from_the_point() {
        let block = Verdict::Block("late".to_owned());
        for &point in Point::ALL {
            let after = |on_error| {
                let policy = Policy {
                    on_error,
                    ..Policy::default()
                };
                policy.after_failure(point, "late")
            };
            let is_pre = point.name().starts_with("Pre");
            assert_eq!(after(None) == block, is_pre, "{point:?}");
            assert_eq!(after(Some(OnError::Proceed)), Verdict::Proceed);
            let blocks = !point.observes();
            assert_eq!(after(Some(OnError::Block)) == block, blocks, "{point:?}");
        }
    }
}
